"""How dense the code is: tokens, tokens a line, assignments of several values at a time, and
branches, by package.

`make lint` prints the table. Tokens are those that Python reads, without comments, docstrings, line
ends and indentation; a line counts if it holds one. An assignment is parallel if it has a tuple on
both sides. The branches of a function are counted by ruff (PLR0912), which refuses more than
twelve.
"""

import ast
import tokenize
from dataclasses import dataclass
from pathlib import Path

LIB = Path(__file__).resolve().parents[1] / "lib"
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler)
LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


@dataclass(frozen=True)
class Measures:
    """Counts of some code: they add up over files."""

    n_tokens: int = 0
    n_lines: int = 0
    n_parallel: int = 0

    def __add__(self, other):
        return Measures(
            self.n_tokens + other.n_tokens,
            self.n_lines + other.n_lines,
            self.n_parallel + other.n_parallel,
        )

    @property
    def tokens_a_line(self):
        return self.n_tokens / max(1, self.n_lines)

    @property
    def parallel_in_hundred_lines(self):
        return 100 * self.n_parallel / max(1, self.n_lines)


def measured(path):
    """The `Measures` of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstring_lines = _docstring_lines(tree)
    lines = set()
    n_tokens = 0
    with open(path, "rb") as file:
        for token in tokenize.tokenize(file.readline):
            is_docstring = token.type == tokenize.STRING and token.start[0] in docstring_lines
            if token.type in LAYOUT or is_docstring:
                continue
            n_tokens += 1
            lines.update(range(token.start[0], token.end[0] + 1))
    return Measures(n_tokens, len(lines), sum(map(_is_parallel, ast.walk(tree))))


def _docstring_lines(tree):
    """The lines on which a string that is a statement begins: docstrings, and the remarks below
    constants."""
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return {
        node.lineno for node in statements if isinstance(getattr(node.value, "value", None), str)
    }


def _is_parallel(node):
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)):
        return False
    return any(isinstance(target, ast.Tuple) for target in node.targets)


def by_package(root):
    """The `Measures` of each folder of a package, and of the modules that lie in none."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        name = parts[0] if len(parts) > 1 else "(modules)"
        found[name] = found.get(name, Measures()) + measured(path)
    return found


def branches(function):
    """In how many places a function can go one way or another: statements that branch or repeat,
    conditional expressions, `and` and `or`, and comprehensions with their conditions.

    What it defines in itself counts apart.
    """
    found = 0
    left = list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        if isinstance(node, DEFINITIONS):
            continue
        if isinstance(node, BRANCHES):
            found += 1
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            found += 1 + len(node.ifs)
        left += ast.iter_child_nodes(node)
    return found


def main():
    print(f"{'package':34}{'tokens':>9}{'lines':>8}{'tokens/line':>13}{'parallel/100':>14}")
    for package in ("handful", "handful_papers"):
        rows = by_package(LIB / package)
        for name, part in [*rows.items(), ("all", sum(rows.values(), Measures()))]:
            print(
                f"{package + ' / ' + name:34}{part.n_tokens:9,}{part.n_lines:8,}"
                f"{part.tokens_a_line:13.1f}{part.parallel_in_hundred_lines:14.1f}"
            )


if __name__ == "__main__":
    main()
