"""Grids and drawings of images, and image files."""

import pytest

import flambeau as torch
from flambeau.vision import io, utils


def test_grid():
    images = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 3, 2, 2)
    grid = utils.make_grid(images, nrow=3, padding=1, pad_value=9)
    assert grid.shape == (3, 7, 10)
    assert grid[0].tolist() == [
        [9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        [9, 0, 0, 9, 1, 1, 9, 2, 2, 9],
        [9, 0, 0, 9, 1, 1, 9, 2, 2, 9],
        [9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        [9, 3, 3, 9, 4, 4, 9, 9, 9, 9],
        [9, 3, 3, 9, 4, 4, 9, 9, 9, 9],
        [9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
    ]
    assert utils.make_grid(torch.zeros(4, 5)).shape == (3, 4, 5)
    assert utils.make_grid([torch.zeros(1, 4, 5)] * 2, padding=0).shape == (3, 4, 10)
    with pytest.raises(TypeError):
        utils.make_grid(5)


def test_normalized_grid():
    images = torch.tensor([0.0, 2.0, 4.0, 8.0]).view(2, 1, 1, 2).expand(2, 3, 1, 2)
    assert utils.make_grid(images, padding=0, normalize=True)[0].tolist() == [[0, 0.25, 0.5, 1]]
    assert utils.make_grid(images, padding=0, normalize=True, scale_each=True)[0].tolist() == [[0, 1, 0, 1]]
    assert utils.make_grid(images, padding=0, normalize=True, value_range=(0, 4))[0].tolist() == [[0, 0.5, 1, 1]]
    with pytest.raises(TypeError, match="tuple"):
        utils.make_grid(images, normalize=True, value_range=[0, 1])


def test_masks():
    pytest.importorskip("PIL")
    image = torch.full((3, 1, 3), 100, dtype=torch.uint8)
    masks = torch.tensor([[[True, True, False]], [[False, True, True]]])
    out = utils.draw_segmentation_masks(image, masks, 0.5, [(200, 0, 0), "blue"])
    assert out.permute(1, 2, 0).tolist() == [[[150, 50, 50], [50, 50, 50], [50, 50, 177]]]
    with pytest.raises(ValueError, match="bool"):
        utils.draw_segmentation_masks(image, masks.long())
    with pytest.raises(ValueError, match="same height"):
        utils.draw_segmentation_masks(image, masks[..., 1:])


def test_boxes():
    pytest.importorskip("PIL")
    image = torch.zeros(3, 8, 9, dtype=torch.uint8)
    out = utils.draw_bounding_boxes(image, torch.tensor([[1, 2, 5, 6]]), colors="red")
    assert out[0, 2, 1:6].tolist() == [255] * 5
    assert out[0, 3:6, 2:5].sum() == 0
    assert out[1:].sum() == 0
    assert utils.draw_bounding_boxes(image.float(), torch.tensor([[1, 2, 5, 6]]), labels=["a"]).dtype is torch.float32
    with pytest.raises(ValueError, match="mismatch"):
        utils.draw_bounding_boxes(image, torch.tensor([[1, 2, 5, 6]]), labels=["a", "b"])
    with pytest.raises(ValueError, match="xmin"):
        utils.draw_bounding_boxes(image, torch.tensor([[5, 2, 1, 6]]))
    with pytest.warns(UserWarning, match="any box"):
        assert utils.draw_bounding_boxes(image, torch.zeros(0, 4)) is image


def test_files(tmp_path):
    pytest.importorskip("PIL")
    image = torch.randint(0, 256, (3, 6, 7), dtype=torch.uint8)
    io.write_png(image, tmp_path / "a.png")
    assert torch.equal(io.read_image(tmp_path / "a.png"), image)
    assert io.read_image(str(tmp_path / "a.png"), io.ImageReadMode.GRAY).shape == (1, 6, 7)
    assert io.read_image(tmp_path / "a.png", "RGBA")[3].min() == 255
    assert torch.equal(io.decode_png(io.encode_png(image[:1])), image[:1])
    smooth = torch.full((3, 8, 8), 90, dtype=torch.uint8)
    io.write_jpeg(smooth, tmp_path / "b.jpg", quality=95)
    assert (io.decode_jpeg(io.read_file(tmp_path / "b.jpg")).int() - 90).abs().max() <= 2
    utils.save_image(torch.rand(3, 3, 4, 4), tmp_path / "c.png", nrow=2)
    assert io.read_image(tmp_path / "c.png").shape == (3, 14, 14)


def test_bad_files(tmp_path):
    pytest.importorskip("PIL")
    with pytest.raises(RuntimeError, match="No such file"):
        io.read_image(tmp_path / "none.png")
    for content in (b"", b"\x89PNG\r\n\x1a\n" + bytes(50), bytes(range(256))):
        (tmp_path / "x.png").write_bytes(content)
        with pytest.raises(RuntimeError):
            io.read_image(tmp_path / "x.png")
    for call in (
        lambda: io.encode_png(torch.zeros(3, 2, 2)),
        lambda: io.encode_png(torch.zeros(2, 2, 2, dtype=torch.uint8)),
        lambda: io.decode_image(torch.zeros(2, 2, dtype=torch.uint8)),
        lambda: io.write_file(tmp_path / "y", torch.zeros(2)),
    ):
        with pytest.raises(RuntimeError):
            call()
