"""`torch.classes` and `torch.package`: the names are there, what they stand for is refused with a reason."""

import pytest

import flambeau as torch
from flambeau.package import PackageExporter, PackageImporter, is_from_package


def test_classes_of_compiled_libraries_do_not_exist():
    with pytest.raises(RuntimeError, match=r"Tried to instantiate class 'mine\.Stack', but it does not exist"):
        torch.classes.mine.Stack()
    with pytest.raises(OSError, match="flambeau cannot load classes compiled for PyTorch"):
        torch.classes.load_library("mine.so")
    assert torch.classes.loaded_libraries == set()


@pytest.mark.parametrize("kind, word", [(PackageExporter, "write"), (PackageImporter, "read")])
def test_packages_are_neither_written_nor_read(kind, word, tmp_path):
    with pytest.raises(NotImplementedError, match=f"does not {word} torch.package archives"):
        kind(tmp_path / "model.pt")
    assert not list(tmp_path.iterdir()) and not is_from_package(torch.nn.Linear(1, 1))
