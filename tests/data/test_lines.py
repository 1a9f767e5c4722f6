"""A line more or less shifts every translation by one, so what a line is must never be in doubt."""

import gzip
import io
import os
import sys
import tracemalloc
from pathlib import Path
from threading import Semaphore, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import TextError
from foretell.data.text.lines import (
    LARGEST_LINE_BYTES,
    arriving_lines,
    count_lines,
    read_lines,
    read_parallel,
)

# All that str.splitlines splits at but LF: text of a line, not its end.
INNER_ENDS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.fixture
def write(tmp_path: Path):
    def write(content: bytes, name: str = "text.txt") -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch):
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


class TestWhatALineIs:
    @pytest.mark.parametrize(
        ("content", "lines"),
        [
            (b"", []),
            (b"\n", [""]),
            (b"a", ["a"]),
            (b"a\n", ["a"]),
            (b"a\n\n", ["a", ""]),
            (b"\na", ["", "a"]),
            (b"a\r\nb\r\n", ["a", "b"]),
            (b"a\r", ["a"]),
            (b"a\r\r\n", ["a\r"]),
            (b"a\rb\n", ["a\rb"]),
            (b"\xef\xbb\xbfa\n", ["a"]),
            (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ],
    )
    def test_ends_marks_and_the_last_line(self, write, content: bytes, lines: list[str]) -> None:
        path = write(content)
        assert list(read_lines(path)) == lines
        assert count_lines(path) == len(lines)

    def test_only_lf_ends_a_line(self, write) -> None:
        text = f"a{INNER_ENDS}b"
        assert list(read_lines(write(f"{text}\n{text}\n".encode()))) == [text, text]

    @given(lines=st.lists(st.text(st.characters(exclude_characters="\0\n\r\ufeff", codec="utf-8"))))
    def test_what_is_joined_by_lf_is_read_as_it_was(
        self, tmp_path_factory, lines: list[str]
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "lines.txt"
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        assert list(read_lines(path)) == lines

    @pytest.mark.parametrize("size", [(1 << 16) - 1, 1 << 16, (1 << 16) + 1, 200_000])
    def test_lines_across_reads_stay_whole(self, write, size: int) -> None:
        lines = ["é" * (size // 2), "", "b" * size]
        assert list(read_lines(write("\r\n".join(lines).encode()))) == lines


class TestSources:
    def test_gzip_is_told_by_its_first_bytes(self, write) -> None:
        path = write(gzip.compress("\ufeffä\r\nb".encode()))
        assert list(read_lines(path)) == ["ä", "b"]

    @pytest.mark.parametrize("keep", [2, 11, 15, -1])
    def test_a_packed_file_cut_short_is_refused(self, write, keep: int) -> None:
        path = write(gzip.compress(b"some text\n" * 50)[:keep])
        with pytest.raises(TextError, match=r"text\.txt is incomplete or damaged"):
            list(read_lines(path))

    @pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
    def test_who_watches_sees_every_byte_of_the_file_once(self, write, pack) -> None:
        """A job knows by their hash whether it has read what it was to read."""
        text = os.urandom(300_000).hex().encode().replace(b"7", b"\n")
        content = pack(text)
        seen = io.BytesIO()
        lines = list(arriving_lines(write(content), seen=seen.write))
        assert seen.getvalue() == content
        assert sum(map(len, lines)) == len(text.splitlines())

    def test_a_dash_is_standard_input(self, stdin) -> None:
        stdin(b"a\nb")
        assert list(read_lines("-")) == ["a", "b"]

    def test_lines_of_a_pipe_come_as_they_are_written(self, tmp_path: Path) -> None:
        """A program that waits for its answer before it writes the next line must get it."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        answers: list[str] = []
        answered = Semaphore(0)

        def ask() -> None:
            with pipe.open("wb", buffering=0) as file:
                for number in range(3):
                    file.write(f"{number}\n".encode())
                    assert answered.acquire(timeout=30)

        asker = Thread(target=ask, daemon=True)
        asker.start()
        for line in read_lines(pipe):
            answers.append(line)
            answered.release()
        asker.join()
        assert answers == ["0", "1", "2"]

    def test_closed_standard_input_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(TextError, match="standard input is closed"):
            list(read_lines("-"))

    def test_a_missing_file_and_a_folder_are_told(self, tmp_path: Path) -> None:
        with pytest.raises(TextError, match=r"no\.txt can't be read \(No such file or directory\)"):
            list(read_lines(tmp_path / "no.txt"))
        with pytest.raises(TextError, match=r"can't be read \(Is a directory\)"):
            list(read_lines(tmp_path))

    def test_memory_does_not_grow_with_the_file(self, write) -> None:
        path = write((b"a line of text that is long " * 5 + b"\n") * 40_000)
        tracemalloc.start()
        assert sum(1 for _ in read_lines(path)) == 40_000
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < path.stat().st_size / 4


class TestBadLines:
    def test_bad_lines_are_named_all_at_once(self, write) -> None:
        path = write(b"good\n\xe9t\xe9\ngood\ncaf\xe9\n")
        with pytest.raises(TextError) as caught:
            list(read_lines(path))
        assert caught.value.problems == (
            f"{path}, line 2: byte 1 is 0xe9, which is no text in UTF-8; save it so.",
            f"{path}, line 4: byte 4 is 0xe9, which is no text in UTF-8; save it so.",
        )

    def test_of_many_bad_lines_the_first_are_named_and_the_rest_counted(self, write) -> None:
        with pytest.raises(TextError) as caught:
            list(read_lines(write(b"\xff\n" * 1_234)))
        assert len(caught.value.problems) == 11
        assert caught.value.problems[-1].endswith("so are 1,224 more lines.")

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
    def test_utf_16_is_never_read_as_spaced_letters(self, write, encoding: str) -> None:
        with pytest.raises(TextError, match=r"line 1: byte \d is 0x(00|ff), which is no text in"):
            list(read_lines(write("plain\n".encode(encoding))))

    def test_an_endless_line_takes_no_endless_memory(self, write) -> None:
        path = write(b"a\n" + b"x" * (3 * LARGEST_LINE_BYTES) + b"\nb\n" + b"y" * 2_000_000)
        lines = [line for lines in arriving_lines(path) for line in lines]
        assert [(line.number, line.text) for line in lines] == [
            (1, "a"),
            (2, ""),
            (3, "b"),
            (4, ""),
        ]
        assert [line.problem is None for line in lines] == [True, False, True, False]
        with pytest.raises(TextError, match="line 2: it is longer than 1,048,576 bytes"):
            list(read_lines(path))

    @pytest.mark.parametrize("over", [0, 1])
    def test_the_limit_is_what_it_says(self, write, over: int) -> None:
        path = write(b"x" * (LARGEST_LINE_BYTES + over) + b"\n")
        [line] = [line for lines in arriving_lines(path) for line in lines]
        assert (line.problem is None) == (over == 0)


class TestParallel:
    def test_line_belongs_to_line(self, write) -> None:
        src, tgt = write(b"a\nb\n", "src"), write(b"c\r\nd", "tgt")
        assert list(read_parallel([src, tgt])) == [("a", "c"), ("b", "d")]

    @pytest.mark.parametrize("longer", [0, 1])
    def test_all_counts_are_told_when_they_differ(self, write, longer: int) -> None:
        paths = [write(b"a\n", "src"), write(b"b\n", "tgt")]
        paths[longer].write_bytes(b"a\n" * 1_200)
        has = [f"{path} has 1 line" for path in paths]
        has[longer] = f"{paths[longer]} has 1,200 lines"
        with pytest.raises(TextError, match=rf"but {has[0]}, {has[1]}\."):
            list(read_parallel(paths))

    def test_three_files_go_together_as_two_do(self, write) -> None:
        paths = [write(f"{n}\n".encode() * 3, str(n)) for n in range(3)]
        assert list(read_parallel(paths)) == [("0", "1", "2")] * 3

    def test_standard_input_is_read_once(self) -> None:
        with pytest.raises(TextError, match="standard input can be read once"):
            list(read_parallel(["-", "-"]))
