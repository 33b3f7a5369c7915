"""What may be left of un-synced writes and names after a power cut, on five kinds of file system.

Each row takes the worst that its kind is documented to do and then some: fsync of a file is never taken to
make its name durable, fsync of the folder never to make content durable.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """One kind of file system on flash.

    Content reaches the medium in pieces of `sector` bytes, in two halves each if a sector `tears`.
    `ordered`: names change in the order of the operations, and content of a file grows from its start;
    otherwise anything may come before anything else. `split_rename`: a rename is up to three changes.
    `sizes_apart`: the size of a file may be there before its content. `fill` is what is read where content
    is missing.
    """

    name: str
    sector: int
    fill: bytes
    ordered: bool = False
    split_rename: bool = False
    sizes_apart: bool = False
    tears: bool = False


LAYOUTS = {
    row.name: row
    for row in (
        # ext4, data=ordered with delayed allocation: names are journalled in order, content may come later,
        # so that a renamed file can be empty (Linux, Documentation/admin-guide/ext4.rst, auto_da_alloc).
        Layout("ordered-journal", sector=4096, fill=b"\0", ordered=True),
        # ext2 and ext4 without journal or with data=writeback: names, sizes and content in any order, and
        # old content of the medium where new is missing (Linux, Documentation/admin-guide/ext4.rst,
        # data=writeback; Pillai et al., All File Systems Are Not Created Equal, OSDI 2014, section 3).
        Layout("unordered-metadata", sector=4096, fill=b"\xff", sizes_apart=True),
        # FAT: no journal; a rename writes the entry of the new name and clears that of the old one in
        # separate sectors, the size stands in the entry (Linux, fs/fat/namei_vfat.c, vfat_rename).
        Layout("fat", sector=512, fill=b"\xff", split_rename=True, sizes_apart=True),
        # Media without powersafe overwrite: a sector of 512 bytes may be written in part, the rest then
        # reads as ones (sqlite.org/psow.html).
        Layout("torn-sectors", sector=512, fill=b"\xff", tears=True),
        # XFS: the size is updated before the extents are written, and what was never written reads as zeros
        # (XFS FAQ, 'Why do I see binary NULLS in some files after recovery').
        Layout("zero-filled", sector=4096, fill=b"\0", sizes_apart=True),
    )
}
