"""Files that are no readable image: what they are and what to do, for messages."""

EXPORT = "save it as PNG or JPEG"
FILM = "is a film; take stills of it, for example: ffmpeg -i FILM -vf fps=1 still-%03d.jpg"
RAW = "is a raw image of a camera; export it as JPEG with the camera's program"
CLOUD = "is a placeholder of iCloud, not the image; download the image first"
PDF = "is a PDF; export its pages or images as PNG or JPEG"
DRAWING = "is an SVG drawing; export it as PNG"
PAGE = "is an HTML page, the download went wrong; download the image itself"

SUFFIXES = {
    **dict.fromkeys((".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".3gp", ".mts", ".mpg", ".mpeg"), FILM),
    **dict.fromkeys((".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2", ".pef", ".srw"), RAW),
    ".pdf": PDF,
    ".svg": DRAWING,
    ".icloud": CLOUD,
    **dict.fromkeys((".jp2", ".jxl", ".psd", ".xcf", ".ico"), f"is not read; {EXPORT}"),
}
# How the content starts -> what it is.
STARTS = (
    (b"version https://git-lfs", "is a pointer of Git LFS, not the image; fetch it with 'git lfs pull'"),
    (b"%PDF", PDF),
    (b"bplist00", CLOUD),
    (b"PK\3\4", "is a ZIP archive; unpack it"),
    (b"\x1aE\xdf\xa3", FILM),
    (b"FUJIFILMCCD-RAW", RAW),
    (b"IIRO", RAW),
    (b"IIU\0", RAW),
    (b"8BPS", f"is a Photoshop file; {EXPORT}"),
    (b"\0\0\0\x0cjP  ", f"is a JPEG 2000 image, which is not read; {EXPORT}"),
    (b"\0\0\0\x0cJXL ", f"is a JPEG XL image, which is not read; {EXPORT}"),
    (b"\xff\x0a", f"is a JPEG XL image, which is not read; {EXPORT}"),
)


def described(start: bytes) -> str | None:
    """What a file is that starts like this, and what to do; None if that is unknown."""
    if not start:
        return "has 0 bytes; copy or download it again"
    if not start.strip(b"\0"):
        return "starts with zeros only, the copy or download went wrong; get it again"
    for magic, text in STARTS:
        if start.startswith(magic):
            return text
    if start[4:8] == b"ftyp":
        return RAW if start[8:11] == b"crx" else FILM
    words = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if words.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return PAGE
    if words.startswith(b"<svg") or (words.startswith((b"<?xml", b"<!doctype svg")) and b"<svg" in words):
        return DRAWING
    if words.startswith((b"<", b"{")):
        return "is a text, perhaps an error of a download; download the image itself"
    return None
