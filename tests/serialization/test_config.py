"""Switches of saving and loading, as programs set them."""

import io
import unittest
import zipfile

import pytest

import flambeau as torch
from flambeau.utils.serialization import config


def _starts(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = []
        for info in archive.infolist():
            head = data[info.header_offset + 26 : info.header_offset + 30]
            name, extra = int.from_bytes(head[:2], "little"), int.from_bytes(head[2:], "little")
            if "/data/" in info.filename:
                found.append(info.header_offset + 30 + name + extra)
        return found


@pytest.mark.parametrize("alignment", [64, 4096])
def test_storages_lie_where_they_are_told(alignment):
    file = io.BytesIO()
    with config.patch("save.storage_alignment", alignment):
        torch.save([torch.ones(3), torch.arange(5)], file)
    assert len(_starts(file.getvalue())) == 2
    assert all(start % alignment == 0 for start in _starts(file.getvalue()))
    file.seek(0)
    assert torch.load(file)[1].tolist() == [0, 1, 2, 3, 4]


def test_the_old_functions_set_the_same_switches(tmp_path):
    assert config.save.compute_crc32 and config.load.endianness is None
    torch.serialization.set_crc32_options(False)
    assert not config.save.compute_crc32
    config.save.compute_crc32 = True
    assert torch.serialization.get_crc32_options()
    torch.save(torch.ones(2), tmp_path / "x.pt")
    with config.patch({"load.mmap": True}):
        assert torch.load(tmp_path / "x.pt").tolist() == [1.0, 1.0]
        with pytest.raises(ValueError, match="f must be a file path"):
            torch.load(io.BytesIO())


def test_patch_decorates_classes_of_tests():
    seen = []

    @config.patch("save.storage_alignment", 128)
    class Tests(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            seen.append(config.save.storage_alignment)

        def test_one(self):
            seen.append(config.save.storage_alignment)

    class Failing(Tests):
        @classmethod
        def setUpClass(cls):
            super().setUpClass()
            raise ValueError

    for cls, well in ((Tests, True), (Failing, False)):
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
        assert result.wasSuccessful() is well
        assert config.save.storage_alignment == 64
    assert seen == [128, 128, 128]
    with pytest.raises(TypeError, match="one by one"):
        config.patch("save.storage_alignment", 128)(io.BytesIO)
