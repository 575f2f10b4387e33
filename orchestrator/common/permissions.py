"""Whom a folder can be changed by: what is found there can run code, be it a pickle or a space."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from tardis_core.errors import UserError


def check_folder(folder: Path) -> None:
    """Raise `UserError` if anybody but us and root could have written something in the folder."""
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
        passing: what counts is only whether the way to the folder can be led elsewhere.
    """
    try:
        about = path.lstat()
    except FileNotFoundError:
        return  # it is gone since it was listed: the sweep still runs, which is said elsewhere
    if about.st_uid not in (os.getuid(), 0):
        raise _Untrusted(path, f"belongs to {_user(about.st_uid)}")
    if stat.S_ISLNK(about.st_mode):
        return  # nobody else can change a link of ours; where it leads is checked when it is used
    if passing and about.st_mode & stat.S_ISVTX:
        return  # such as /tmp: others can add to it, and not replace what is ours
    if about.st_mode & stat.S_IWOTH:
        raise _Untrusted(path, "can be written by everybody")
    if about.st_mode & stat.S_IWGRP and (others := _others_in(about.st_gid)):
        raise _Untrusted(path, f"can be written by {', '.join(sorted(others)[:3])}")


class _Untrusted(UserError):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} {why}, and a sweep is resumed only from files that nobody else can change: "
            "they can hold code, which would run as you; if you trust them, make them yours alone "
            "(chown -R $USER, chmod -R go-w)"
        )


def _others_in(group: int) -> set[str]:
    """Who is in the group beside us and root."""
    try:
        named = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        named = set()
    named |= {each.pw_name for each in pwd.getpwall() if each.pw_gid == group}
    return named - {_user(os.getuid()), "root"}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
