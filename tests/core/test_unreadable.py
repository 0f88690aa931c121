"""What is no image, is damaged or too large is refused."""

import os
import threading

import numpy as np
import pytest
from PIL import Image, PngImagePlugin
from tests.core.golden_images import GOLDEN, IMAGES, MADE, encoded
from tests.waiting import PATIENCE

from nsh.core.limits import MAX_PIXELS
from nsh.core.preprocess import FORMATS, load_image
from nsh.errors import UnreadableImage


class TestUnreadable:
    @pytest.mark.parametrize(
        "path", [path for path in IMAGES if path.suffix in (".jpg", ".webp")], ids=lambda p: p.name
    )
    def test_a_truncated_file_never_passes(self, path):
        content = path.read_bytes()
        for kept in range(0, len(content) - 2, max(1, len(content) // 50)):
            with pytest.raises(UnreadableImage):
                load_image(content[:kept])

    def test_every_broken_byte_ends_in_an_image_or_in_unreadable(self):
        generator = np.random.default_rng(0)
        refused = 0
        for path in IMAGES * 15:
            content = np.frombuffer(path.read_bytes(), dtype=np.uint8).copy()
            content[generator.integers(0, len(content), 8)] = generator.integers(0, 256, 8)
            try:
                assert load_image(content.tobytes()).mode == "RGB"
            except UnreadableImage:
                refused += 1
        assert refused > 20

    @pytest.mark.parametrize("kind", FORMATS)
    def test_so_does_every_broken_byte_of_every_format(self, kind):
        generator = np.random.default_rng(0)
        whole = encoded(Image.fromarray(MADE.picture()), kind)
        refusals = []
        for _ in range(60):
            content = np.frombuffer(whole, dtype=np.uint8).copy()
            places = generator.integers(0, min(len(content), 400), 4)  # headers lie in front
            content[places] = generator.integers(0, 256, 4)
            try:
                assert load_image(content.tobytes(), max_pixels=10**6).mode == "RGB"
            except UnreadableImage as error:
                refusals.append(str(error))
        assert refusals
        assert not any("\n" in refusal for refusal in refusals)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "the file is empty"),
            (b"hi\n", "not an image in any of the formats JPEG"),
            (b"%!PS-Adobe-3.0 EPSF", "not an"),
        ],
    )
    def test_what_is_no_image(self, tmp_path, content, reason):
        path = tmp_path / "b.png"
        path.write_bytes(content)
        for source in (content, path):
            with pytest.raises(UnreadableImage, match=reason) as caught:
                load_image(source)
            assert str(tmp_path) not in str(caught.value)
            assert "0x" not in str(caught.value)

    def test_a_folder_named_like_an_image(self, tmp_path):
        (tmp_path / "x.jpg").mkdir()
        with pytest.raises(UnreadableImage, match="a folder"):
            load_image(tmp_path / "x.jpg")

    def test_a_named_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "x.jpg")
        caught = []

        def load():
            try:
                load_image(tmp_path / "x.jpg")
            except UnreadableImage as error:
                caught.append(str(error))

        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert caught == ["not a regular file"]

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(UnreadableImage, match="cannot be read: No such file"):
            load_image(tmp_path / "none.jpg")

    def test_a_file_without_the_right_to_read(self, tmp_path):
        path = tmp_path / "a.png"
        path.write_bytes((GOLDEN / "images" / "rgb.png").read_bytes())
        path.chmod(0)
        user = os.geteuid()
        try:
            if user == 0:  # root reads everything
                os.seteuid(65_534)
            with pytest.raises(UnreadableImage, match="cannot be read: Permission denied") as caught:
                load_image(path)
        finally:
            os.seteuid(user)
        assert str(tmp_path) not in str(caught.value)

    @pytest.mark.parametrize("mode", ["F", "I"])
    def test_values_without_a_known_white(self, mode):
        with pytest.raises(UnreadableImage, match=r"no stated white|exceed 16 bits"):
            load_image(Image.fromarray(np.full((2, 2), 70_000, dtype=np.float32 if mode == "F" else np.int32)))

    def test_no_pixel(self):
        with pytest.raises(UnreadableImage, match="has no pixel"):
            load_image(Image.new("RGB", (0, 5)))

    def test_something_else_altogether(self):
        with pytest.raises(UnreadableImage):
            load_image(None)


class TestPixelLimit:
    @pytest.mark.parametrize("many", [False, True], ids=["over Pillow's warning", "over Pillow's error"])
    def test_a_bomb_is_refused_before_it_is_decoded(self, many):
        size = MAX_PIXELS // 1000 + 1
        bomb = encoded(Image.new("1", (1, 1)), "PNG")
        width = (size * (3 if many else 1)).to_bytes(4, "big")
        header = b"IHDR" + width + (1000).to_bytes(4, "big") + bomb[24:29]
        bomb = bomb[:12] + header + PngImagePlugin._crc32(header).to_bytes(4, "big") + bomb[33:]
        with pytest.raises(UnreadableImage, match=f"more than the {MAX_PIXELS} pixels allowed"):
            load_image(bomb)

    def test_the_limit_holds_for_images_and_arrays_too(self):
        for source in (Image.new("RGB", (4, 4)), np.zeros((4, 4), dtype=np.uint8)):
            with pytest.raises(UnreadableImage, match=r"4 x 4 is more than the 15 pixels allowed.*--max-pixels"):
                load_image(source, max_pixels=15)
        assert load_image(Image.new("RGB", (5, 3)), max_pixels=15).size == (5, 3)

    def test_phones_photographs_are_within_it(self):
        assert MAX_PIXELS >= 16_320 * 12_240  # 200 megapixels

    @pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "WEBP"])
    def test_pillows_own_limit_is_neither_asked_nor_changed(self, kind, monkeypatch):
        content = encoded(Image.fromarray(MADE.picture()), kind)
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)  # warns from there on, raises from twice that
        assert load_image(content).size == (MADE.WIDTH, MADE.HEIGHT)
        assert Image.MAX_IMAGE_PIXELS == 10
