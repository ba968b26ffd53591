"""What pyproject.toml cannot say: an sdist whose bytes follow from the files alone, as those of the wheel do.

Both take the time of everything in them from `SOURCE_DATE_EPOCH` (`tools/release.py` sets it to that of the commit).
"""

import gzip
import os
import tarfile
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist


class Sdist(sdist):
    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        moment = os.environ.get("SOURCE_DATE_EPOCH")
        if format != "gztar" or moment is None:
            return super().make_archive(base_name, format, root_dir, base_dir, owner, group)

        def plain(member):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime, member.mode = int(moment), 0o755 if member.mode & 0o100 else 0o644
            return member

        base = Path(root_dir or ".") / base_dir
        name = f"{base_name}.tar.gz"
        with (
            open(name, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=int(moment)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in sorted(p for p in base.rglob("*") if p.is_file()):
                archive.add(path, path.relative_to(base.parent).as_posix(), filter=plain)
        return name


setup(cmdclass={"sdist": Sdist})
