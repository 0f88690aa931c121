"""Decodes a large JPEG at a half, a quarter or an eighth of its size, and counts what that costs.

A JPEG stores blocks of 8 x 8 frequencies. From the low ones libjpeg computes 4 x 4, 2 x 2 or 1 pixel of a block, which
takes a fraction of the time and memory. Knows no other format.
"""

import struct

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

SHARPNESS = 2
"""Decoded pixels for each pixel of the result, along each side, at least."""

_READING = 8  # reading a block's frequencies takes less than an eighth of the time of computing its 8 x 8 pixels
_SEQUENTIAL = bytes([0, 63, 0])  # the end of a scan's header: all frequencies, all bits
_PREDICTOR = -3  # where a lossless scan's header has its predictor, 1 to 7, and other scans their lowest frequency


class JpegImage(JpegImageFile):
    """An opened JPEG, which may be decoded at a smaller scale."""

    _covered: tuple[float, float, float, float] | None = None  # by the picture; the rest of the pixels is padding

    def decode_for(self, size: int) -> int:
        """Before it is decoded, choose the smallest scale that leaves both sides `SHARPNESS` x `size` pixels or more.

        Returns:
            The pixels that count towards a limit. If the only scan is sequential, libjpeg holds some rows at a time:
            the decoded pixels count, at least an eighth of the stored ones, which are all read. Of other JPEGs, mostly
            progressive ones, libjpeg holds all frequencies, in 3 to 8 bytes a stored pixel: all stored pixels count.

        Examples:
            >>> import io
            >>> file = io.BytesIO()
            >>> Image.new("RGB", (1000, 500)).save(file, "JPEG")
            >>> _ = file.seek(0)
            >>> image = JpegImage(file)
            >>> image.decode_for(64), image.size
            (125000, (500, 250))
        """
        stored = self.width * self.height
        header = self._scan_header()
        if header[_PREDICTOR:][:1] != b"\0":
            return stored  # libjpeg does not scale lossless JPEGs
        drafted = self.draft(None, (SHARPNESS * size, SHARPNESS * size))
        if drafted:
            self._covered = drafted[1]
        whole = struct.pack(">HB", len(header), self.layers)  # the header of a scan of all components
        if not header.startswith(whole) or not header.endswith(_SEQUENTIAL):
            return stored
        return max(self.width * self.height, -(-stored // _READING))

    def load_end(self) -> None:
        """Stretch the picture over the padding of its last column and row, whose blocks it only partly covers."""
        if self._covered not in (None, (0, 0, *self.size)):
            self.im = self.resize(self.size, Image.Resampling.BICUBIC, box=self._covered).im

    def _scan_header(self) -> bytes:
        """The bytes that Pillow read last, as many as the header of a scan of all components has."""
        assert self.fp is not None
        length = 6 + 2 * self.layers
        self.fp.seek(max(0, self.fp.tell() - length))
        return self.fp.read(length)
