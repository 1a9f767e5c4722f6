"""A file is one idea that fits into a head: 400 lines at most, the body of a function 50."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("data", "model", "runtime", "export", "protos", "server", "client", "jobs", "cli")
MAX_FILE, MAX_FUNCTION = 400, 50
BANNED_NAMES = {"utils", "helpers", "common", "base", "manager", "misc"}


def sources():
    return [
        path
        for folder in (*FOLDERS, "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "_pb2" not in path.name
    ]


def functions(path):
    """Functions with the lines of their bodies; signatures and docstrings are for callers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield node.name, body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_no_file_is_too_long():
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in sources()}
    long = {str(path): length for path, length in lengths.items() if length > MAX_FILE}
    assert not long, f"files over {MAX_FILE} lines; split them by idea: {long}"


def test_no_function_is_too_long():
    long = {
        f"{path.relative_to(ROOT)}:{name}": length
        for path in sources()
        for name, length in functions(path)
        if length > MAX_FUNCTION
    }
    assert not long, f"functions over {MAX_FUNCTION} lines; split them: {long}"


def test_no_file_is_named_after_nothing():
    nameless = [str(path.relative_to(ROOT)) for path in sources() if path.stem in BANNED_NAMES]
    assert not nameless, f"name these files after what is in them: {nameless}"


def test_every_folder_says_what_it_is():
    silent = [folder for folder in FOLDERS if not (ROOT / folder / "README.md").is_file()]
    assert not silent, f"folders without a README.md: {silent}"
