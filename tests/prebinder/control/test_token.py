import logging
import os
import stat
from pathlib import Path

import pytest

from prebinder.control.token import MIN_CHARACTERS, ControlToken, default_token_file, obtain_token, read_token
from prebinder.errors import CommandError

TOKEN = "x" * MIN_CHARACTERS


def test_a_token_is_made_once_for_us_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "token"
    with caplog.at_level(logging.INFO):
        made = obtain_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(made) >= MIN_CHARACTERS
    assert [record.__dict__["file"] for record in caplog.records] == [str(path)]
    assert made not in caplog.text
    assert obtain_token(path) == read_token(path) == made


def test_two_tokens_differ(tmp_path: Path) -> None:
    assert obtain_token(tmp_path / "a") != obtain_token(tmp_path / "b")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_file_that_others_cannot_have_is_read(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(mode)
    assert read_token(path) == TOKEN


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o660, 0o620, 0o601])
def test_a_file_that_others_could_have_is_rejected(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(mode)
    with pytest.raises(CommandError, match=f"has mode {mode:04o}: other users have access. Run chmod 600"):
        obtain_token(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    os.chown(path, 65534, 65534)
    with pytest.raises(CommandError, match="belongs to user 65534"):
        obtain_token(path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"x" * (MIN_CHARACTERS - 1), id="short"),
        pytest.param(b"two words of sixteen", id="spaces"),
        pytest.param(b"x" * 16 + b"\n" + b"x" * 16, id="two lines"),
        pytest.param("ü".encode() * 16, id="not ASCII"),
        pytest.param(b"\0" * 16, id="not printable"),
        pytest.param(b"x" * 5000, id="too long"),
    ],
)
def test_what_is_no_token_is_rejected(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(CommandError, match="remove the file to have one created"):
        obtain_token(path)


def test_a_file_that_leads_nowhere_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommandError, match="cannot read the control token"):
        obtain_token(tmp_path / "token")
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cannot create the control token .*: No such file or directory"):
        obtain_token(tmp_path / "none" / "token")


async def test_a_new_token_is_used_and_a_bad_one_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    token = ControlToken(path)
    first = token.current
    for content, mode in (("short", 0o600), (TOKEN, 0o644)):
        path.write_text(content)
        path.chmod(mode)
        await token.refresh()
        await token.refresh()
        assert token.current == first
    path.unlink()
    await token.refresh()
    assert (token.current, path.exists()) == (first, False)
    assert caplog.text.count("Control port token rejected") == 3
    path.write_text(TOKEN)
    path.chmod(0o600)
    await token.refresh()
    assert token.current == TOKEN
    assert TOKEN not in caplog.text


def test_the_default_belongs_to_a_user() -> None:
    assert str(os.getuid()) in default_token_file().name
