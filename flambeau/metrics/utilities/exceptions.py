"""What the metrics raise and warn of that no built-in class says."""


class TorchMetricsUserError(Exception):
    """A metric is used in an order that cannot work."""


class TorchMetricsUserWarning(UserWarning):
    """A metric is used in a way that gives a doubtful result."""
