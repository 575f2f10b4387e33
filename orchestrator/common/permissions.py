"""Who can change a folder: files of a sweep, such as pickles and spaces, can run code."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from tardis_core.errors import UserError


def check_folder(folder: Path) -> None:
    """Raise `UserError` if anyone but us and root could have written to the folder."""
    folder = folder.resolve()
    for path in folder.parents:
        _check(path, passing=True)
    for path in (folder, *_below(folder)):
        _check(path)


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(parent, name)


def _check(path: Path, passing: bool = False) -> None:
    """
    Args:
        passing: check only whether others could redirect the path through it.
    """
    try:
        info = path.lstat()
    except FileNotFoundError:
        return  # deleted since it was listed: the sweep is running, which is reported elsewhere
    if info.st_uid not in (os.getuid(), 0):
        raise _Untrusted(path, f"belongs to {_user(info.st_uid)}")
    if stat.S_ISLNK(info.st_mode):
        return  # nobody else can change a link of ours; its target is checked when it is used
    if passing and info.st_mode & stat.S_ISVTX:
        return  # such as /tmp: others can add files, but not replace ours
    if info.st_mode & stat.S_IWOTH:
        raise _Untrusted(path, "can be written by everyone")
    if info.st_mode & stat.S_IWGRP and (others := _others_in(info.st_gid)):
        raise _Untrusted(path, f"can be written by {', '.join(sorted(others)[:3])}")


class _Untrusted(UserError):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} {why}, and a sweep is resumed only from files that nobody else can change: "
            "they can contain code, which would run as you; if you trust them, make them yours "
            "alone (chown -R $USER, chmod -R go-w)"
        )


def _others_in(group: int) -> set[str]:
    """The members of a group other than us and root."""
    try:
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        members = set()
    members |= {each.pw_name for each in pwd.getpwall() if each.pw_gid == group}
    return members - {_user(os.getuid()), "root"}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
