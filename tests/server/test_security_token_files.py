"""Files of tokens: what they hold, how they change, and that they give nothing away."""

import asyncio
import hashlib
import os
import threading
from types import SimpleNamespace

import grpc
import pytest

from foretell.data.errors import OptionError
from foretell.server.access.authorisation import Authorisation
from foretell.server.access.tokens import CLOCK_DRIFT_S, GROUPS, TokenFile, add_token, read_tokens
from foretell.server.errors import TokenFileError, UnauthenticatedError

TOKEN = "k3yX-of_the.house~42"
ALL = ",".join(GROUPS)


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


def line(name, token, groups=ALL, *until):
    return " ".join([name, digest(token), groups, *until]) + "\n"


def test_a_token_ends_with_its_time_and_the_clocks_drift(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(line("a", TOKEN, "inference", "2027-01-31T01:00:00+01:00"))
    end_s = read_tokens(path)[0].until_s
    now_s = end_s
    tokens = TokenFile(path, clock=lambda: now_s)
    now_s = end_s + CLOCK_DRIFT_S
    assert tokens.check(TOKEN).name == "a"
    now_s = end_s + CLOCK_DRIFT_S + 1
    with pytest.raises(UnauthenticatedError, match="time is over"):
        tokens.check(TOKEN)


def test_a_token_that_is_made_is_good_and_its_file_holds_none(tmp_path):
    path = tmp_path / "tokens"
    first = add_token(path, "billing", "inference")
    path.write_text(path.read_text() + "# a remark without a line break")
    second = add_token(path, "deploy", "metadata,repository", "2999-01-31T00:00:00Z")
    tokens = TokenFile(path)
    assert tokens.check(first).groups == {"inference"}
    assert tokens.check(second).name == "deploy"
    assert first not in path.read_text()
    assert "a remark" in path.read_text()
    assert len(first) >= 32
    assert first != second


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("a", "inference"), "has a token for a already; take another name .*, such as a-2; take"),
        (("b c", "inference"), "NAME is 'b c'; write at most 64 of"),
        (("b", "all"), "groups is 'all'; give some of inference, metadata, repository"),
        (("b", "inference", "soon"), "until is 'soon'; give a time with its zone"),
        (("b", "inference", "2999-01-31"), "until is '2999-01-31'; give a time with its zone"),
        (("b", "inference", ""), "until is ''; give a time"),
        (("b", "inference", "2020-01-31T00:00:00Z"), "until is .*, which is past"),
        (("b c", "all", "soon"), "NAME is .*\ngroups is .*\nuntil is"),
    ],
)
def test_a_token_that_cannot_be_leaves_the_file_as_it_is(tmp_path, arguments, problem):
    path = tmp_path / "tokens"
    add_token(path, "a", "inference")
    before = path.read_text()
    with pytest.raises(OptionError, match=problem):
        add_token(path, *arguments)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_bad_file_is_told_by_its_own_lines_before_a_token_is_added(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(line("a", "first") + "nonsense\n")
    with pytest.raises(TokenFileError, match="line 2 has 1 fields") as caught:
        add_token(path, "b", "inference")
    assert len(caught.value.problems) == 1


def replace(path, text):
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


def test_tokens_come_and_go_with_the_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(line("a", "first"))
    tokens = TokenFile(path, check_every_s=0)
    replace(path, line("b", "second"))
    assert tokens.check("second").name == "b"
    with pytest.raises(UnauthenticatedError):
        tokens.check("first")


@pytest.mark.parametrize("content", ["", "# none\n", "nonsense\n", None])
def test_a_file_that_becomes_bad_changes_nothing(tmp_path, caplog, content):
    """Whoever writes the file by hand must lock nobody out half-way."""
    path = tmp_path / "tokens"
    path.write_text(line("a", "first"))
    tokens = TokenFile(path, check_every_s=0)
    if content is None:
        path.unlink()
    else:
        replace(path, content)
    for _ in range(3):
        assert tokens.check("first").name == "a"
    assert caplog.text.count("the former content stays") == 1
    replace(path, line("b", "second"))
    assert tokens.check("second").name == "b"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "holds no token"),
        ("# comment\n\n", "holds no token"),
        ("a\n", "line 1 has 1 fields; write NAME SHA256 GROUPS"),
        (f"a {TOKEN} inference\n", "line 1: the second field is no SHA-256"),
        (line("a b".replace(" ", "/"), TOKEN), "line 1: the name is none"),
        (line("a", TOKEN, "inference,admin"), "the groups are not all of inference"),
        (line("a", TOKEN, "inference", "2027-01-31"), "the time is none with its zone"),
        (line("a", TOKEN, "inference", "soon"), "the time is none with its zone"),
        (line("a", TOKEN) + line("a", "other"), "has a name twice"),
        (line("a", TOKEN) + line("b", TOKEN), "has a token twice"),
        ("".join(line(f"n{i}", f"t{i}") for i in range(1001)), "at most 1,000 can be"),
    ],
)
def test_a_bad_file_is_told_by_line_and_shows_no_field(tmp_path, content, problem):
    """A token itself may stand where its hash belongs."""
    path = tmp_path / "tokens"
    path.write_text(content)
    with pytest.raises(TokenFileError, match=problem) as caught:
        read_tokens(path)
    assert TOKEN not in str(caught.value)
    assert digest(TOKEN) not in str(caught.value)


def test_all_problems_of_a_file_are_told(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("x\n" + f"a/b {TOKEN} all soon\n")
    with pytest.raises(TokenFileError) as caught:
        read_tokens(path)
    assert len(caught.value.problems) == 5


def test_of_many_problems_the_first_are_told_and_the_others_counted(tmp_path):
    """Somebody names another file by mistake, every line of which is wrong."""
    path = tmp_path / "tokens"
    path.write_text("x\n" * 180)
    with pytest.raises(TokenFileError) as caught:
        read_tokens(path)
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1] == "and 170 more."


def test_a_pipe_in_its_place_is_read_by_nobody(tmp_path, caplog):
    """Who opens a pipe waits for its other end: once the whole server did."""
    path, pipe = tmp_path / "tokens", tmp_path / "pipe"
    path.write_text(line("a", "first"))
    tokens = TokenFile(path, check_every_s=0)
    os.mkfifo(pipe)
    pipe.replace(path)
    found = []
    thread = threading.Thread(target=lambda: found.append(tokens.check("first").name), daemon=True)
    thread.start()
    thread.join(60)
    assert found == ["a"]
    assert "no regular file" in caplog.text
    with pytest.raises(TokenFileError, match="can't be read: no regular file"):
        read_tokens(path)


def test_a_file_is_looked_at_off_the_event_loop(tmp_path, monkeypatch):
    """A disk that hangs must hold up no call but the one that looks."""
    path = tmp_path / "tokens"
    path.write_text(line("a", "first"))
    tokens = TokenFile(path, check_every_s=3600)
    monkeypatch.setattr(TokenFile, "is_due", True)
    looking = []
    monkeypatch.setattr(TokenFile, "look", lambda _: looking.append(threading.current_thread()))
    handler = grpc.unary_unary_rpc_method_handler(print)

    async def find(_details):
        return handler

    metadata = (("authorization", "Bearer first"),)
    details = SimpleNamespace(method="/foretell.v1.Models/List", invocation_metadata=metadata)
    assert asyncio.run(Authorisation(tokens).intercept_service(find, details)) is handler
    assert len(looking) == 1
    assert looking[0] is not threading.current_thread()


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "tokens"
    with pytest.raises(TokenFileError, match="can't be read"):
        read_tokens(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenFileError, match="no text file"):
        read_tokens(path)
    path.write_bytes(b"#" * 2**20 + b"#")
    with pytest.raises(TokenFileError, match="more than 1,048,576 bytes"):
        read_tokens(path)
