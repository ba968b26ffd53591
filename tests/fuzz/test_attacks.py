"""Programs that attack files, caches, memory and threads, in processes of their own (see `attack`)."""

from attack import FACTOR, SEED, attack


def test_confused_pickles():
    """Files whose values have wrong types load as errors or as tensors that are whole."""
    *_, outcomes = attack("confused_pickles.py", 1500 * FACTOR, SEED)
    assert "refused" in outcomes
