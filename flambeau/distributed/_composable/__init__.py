"""An older place of functions of `torch.distributed.fsdp`."""
