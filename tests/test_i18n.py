"""Nothing that a user reads stays English with `--lang zh`, and English costs and changes nothing."""

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from gpuselect import i18n
from gpuselect.cli import language as spoken
from gpuselect.cli import main
from gpuselect.note_texts import NOTES
from gpuselect.quantities import parse_money
from gpuselect.report.blocks import Grid
from gpuselect.report.console import Page, Style, cells, filled
from gpuselect.report.format import money
from gpuselect.stability import EXPLAINED

ROOT = Path(__file__).parents[1]
WORDS = r"[a-z]{2,} [a-z]{2,}|^[A-Za-z]{3,}$"  # two words, or one that is all
SINKS = {  # calls of which this argument is shown
    "InputError": 0, "CatalogError": 0, "ValueError": 0, "Note": 1, "Heading": 0, "Paragraph": 0, "Column": 1,
    "Flag": 1, "labelled": 0, "full_stop": 0, "note": 0, "heading": 0, "line": 0, "bullet": 0,
}  # fmt: skip
WORD = re.compile(r"(?<![\w./:=<{`'_@|-])[A-Za-z]?[a-z]{2,}(?![\w/=>}`'_(|-]|\.\w)")
COMMANDS = [
    "recommend --params 10B --task training",
    "recommend --model llama-3.1-405b --task serving --budget $1/h",
    "recommend --task inference --model bert-large --latency 20ms --request-rate 500/s",
    "recommend --task video --streams 16 --tenants 2",
    "estimate --on 8xH100 --model llama-3.1-70b --task serving",
    "compare a100 h100",
    "explain h100 --params 10B --task training",
    "explain memory-exceeded",
    "list rules",
    "list optimisations",
    "recommend --help",
    "config show --help",
    "recommend --params nonsense --task training",
    "estimate --on 2xh1000 --params 7B",
    "recommend --modell x",
    "shwo",
]
NAMES = {  # names and prose of products, which stay as they are
    "and", "with", "custom", "part", "for", "open", "language", "container", "runtime", "Serving",
    *NOTES, *EXPLAINED,  # codes of one word
    "board",
}  # fmt: skip


def _tool():
    spec = importlib.util.spec_from_file_location("messages_tool", ROOT / "tools" / "messages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
CATALOG = i18n.read_po((TOOL.LOCALE / "zh.po").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _english_after(monkeypatch):
    """Each test starts and leaves without a language."""
    for name in (i18n.VARIABLE, *i18n.LOCALE_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPUSELECT_NO_CONFIG", "1")
    i18n.use_language()
    yield
    monkeypatch.undo()
    i18n.use_language()


def said(capsys, *arguments):
    """Exit code, and both outputs as one text."""
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    found = capsys.readouterr()
    return left.value.code, found.out + found.err


def test_every_message_is_translated_with_its_placeholders():
    """After a new sentence: `python tools/messages.py update`, then fill src/gpuselect/locale/zh.po."""
    assert TOOL.faults(CATALOG, TOOL.extracted()) == []


def test_a_missing_or_changed_translation_is_found():
    """The check of the catalog can fail."""
    messages = {"{n} cards": ["a.py"], "two": ["b.py"]}
    found = TOOL.faults({"{n} cards": "{m} 张卡", "gone": "旧"}, messages)
    assert [fault.split(":")[0] for fault in found] == [
        "not translated", "no longer used", "other placeholders",
    ]  # fmt: skip


def test_a_catalog_written_and_read_is_the_same():
    """Quotes, lines and backslashes survive."""
    texts = {'a "quoted" line\n\nand \\b': "一行\n\n“引号”\\b"}
    assert i18n.read_po(TOOL.po_text("", texts, {m: ["a.py"] for m in texts})) == texts


def _shown_text(node):
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
    if isinstance(node, ast.BinOp):
        return _shown_text(node.left) + _shown_text(node.right)
    return ""


def unmarked(source):
    """Sentences that code shows without `_` or `N_`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            place = SINKS.get(name)
            if place is not None and len(node.args) > place:
                text = _shown_text(node.args[place])
                if re.search(WORDS, text):
                    found.append(f"{node.lineno}: {text}")
    return found


def test_what_is_shown_goes_through_translation():
    """Errors, notes, headings, help of flags and columns."""
    found = [
        f"{path.relative_to(TOOL.SOURCE)}:{line}"
        for path in sorted(TOOL.SOURCE.rglob("*.py"))
        for line in unmarked(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_sentence_without_a_mark_is_found():
    """The check of the code can fail."""
    assert unmarked('raise InputError(f"no such {name} here")')
    assert unmarked('page.heading("Options")')
    assert not unmarked('raise InputError(_("no such {name} here").format(name=name))')


def test_chinese_sentences_have_chinese_punctuation():
    """A Latin stop after a Chinese sign, or a Latin word that touches one."""
    beside = re.compile(r"[一-鿿][,;:!?](?!\d)|[一-鿿]\.(?!\w)|[一-鿿][A-Za-z0-9]|[A-Za-z0-9][一-鿿]")
    marks = re.compile(r"\{[^}]*\}|<<[^>]*>>")
    assert [text for text in CATALOG.values() if beside.search(marks.sub("", text))] == []
    assert [text for text in CATALOG.values() if re.search(r"[\d}] %", text)] == []  # 80%, without a blank


def words(text):
    """Words of a text that can be words of a sentence."""
    return set(WORD.findall(text))


ENGLISH = set().union(*map(words, CATALOG)) - set().union(
    *(re.findall(r"[A-Za-z]+", text) for text in CATALOG.values())
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_speaks_chinese(command, capsys):
    """No word of an English message appears, but in names, codes, flags and commands to copy."""
    _code, text = said(capsys, *command.split(), "--lang", "zh")
    lines = [line for line in text.splitlines() if not re.match(r"\s*gpuselect ", line)]
    shown = re.sub(r"\[[a-z0-9-]+\]|`[^`]*`|'[^']*'|\[OPTIONS\]", "", "\n".join(lines))
    assert re.search(r"[一-鿿]", shown)
    assert words(shown) & ENGLISH - NAMES == set()


@pytest.mark.parametrize("suffix", ["md", "html"])
def test_a_report_speaks_chinese(suffix, capsys, tmp_path):
    """Up to the sources, which carry the titles of their publications."""
    path = tmp_path / f"decision.{suffix}"
    said(capsys, "report", "--params", "10B", "--task", "training", "-o", str(path), "--lang", "zh")
    page = path.read_text(encoding="utf-8")
    assert suffix == "md" or '<html lang="zh">' in page
    body = re.sub(r"<style.*?</style>", "", page.partition("<body>")[2] or page, flags=re.DOTALL)
    body = re.split(r"来源与版本</h2>|## 来源与版本", body)[0]
    kept = [line for line in body.splitlines() if not re.search(r"MLPerf|torchao|gpuselect ", line)]
    marked = r"<[^>]*>|\\?\[[a-z0-9-]+\\?\]|```.*?```|`[^`]*`"
    shown = re.sub(marked, " ", "\n".join(kept), flags=re.DOTALL)
    keys = {"task", "params", "pretrain", "list", "retail", "server"}
    assert words(shown) & ENGLISH - NAMES - keys == set()


@pytest.mark.parametrize(
    ("arguments", "environment", "wanted"),
    [
        ([], {}, "en"),
        ([], {"LANG": "zh_CN.UTF-8"}, "zh"),
        ([], {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ([], {"LC_MESSAGES": "zh_TW", "LANG": "de_DE"}, "zh"),
        ([], {"GPUSELECT_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
        (["--lang", "en"], {"GPUSELECT_LANG": "zh"}, "en"),
        (["--lang=zh"], {"LC_ALL": "en_US.UTF-8"}, "zh"),
    ],
)
def test_flag_then_variable_then_locale(arguments, environment, wanted, monkeypatch):
    """The first that names a language decides."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    spoken.speak(arguments)
    assert i18n.language() == wanted


def test_a_setting_is_weaker_than_flag_and_variable(monkeypatch):
    """A configuration file stands before the locale only."""
    spoken.speak_setting("zh")
    assert i18n.language() == "zh"
    monkeypatch.setenv(i18n.VARIABLE, "en")
    spoken.speak([])
    spoken.speak_setting("zh")
    assert i18n.language() == "en"


def test_a_locale_that_cannot_be_shown_is_left(monkeypatch):
    """Better English than question marks."""

    class Terminal:
        encoding = "ascii"

    monkeypatch.setenv("LANG", "zh_CN")
    monkeypatch.setattr(sys, "stdout", Terminal())
    spoken.speak([])
    assert i18n.language() == "en"


def test_an_unknown_language_is_refused(capsys):
    """With the names that there are."""
    assert said(capsys, "list", "rules", "--lang", "fr") == (
        2, "error: --lang is one of en, zh, not 'fr'\n",
    )  # fmt: skip


def test_english_reads_no_catalog(capsys, monkeypatch):
    """Start-up pays nothing for other languages."""
    monkeypatch.setattr(i18n, "read_po", None)  # a call would fail
    assert "Rule" in said(capsys, "list", "rules")[1]


def test_numbers_codes_and_keys_do_not_depend_on_the_language(capsys):
    """The payloads differ in sentences only."""

    def bare(value):
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items()}
        if isinstance(value, list):
            return [bare(item) for item in value]
        return "" if isinstance(value, str) and re.search(r"[一-鿿]| ", value) else value

    job = ["estimate", "--on", "8xh100", "--task", "serving", "--model", "llama-3.1-8b", "--json", "-q"]
    english, chinese = (json.loads(said(capsys, *job, "--lang", name)[1]) for name in ("en", "zh"))
    marks = {"", *(key for key in CATALOG if " " not in key)}

    def same(one, other):
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        if isinstance(one, list):
            return len(one) == len(other) and all(map(same, one, other))
        return one == other or one in marks or other == ""

    assert same(bare(english), bare(chinese))


def test_tables_are_aligned_at_80_columns():
    """A Chinese sign takes two columns."""
    grid = Grid(("加速器", "显存"), (("八张卡", "80"), ("h100", "7")), frozenset({1}))
    for style in (Style(), Style(width=80)):
        page = Page(style)
        page.grid(grid)
        rows = [line for line in page.text().splitlines() if not line.startswith("─")]
        assert len({cells(line) for line in rows}) == 1


def test_help_is_wrapped_by_columns(capsys, monkeypatch):
    """No line is wider than the terminal, and none begins with a stop."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = said(capsys, "recommend", "--help", "--lang", "zh")[1].splitlines()
    assert not [line for line in lines if cells(line) > 80 and not line.lstrip().startswith("gpuselect")]
    assert not [line for line in lines if line.strip()[:1] in tuple("，。；：、）")]


@pytest.mark.parametrize(
    ("usd", "english", "chinese"),
    [(9_400, "$9,400", "$9,400"), (12_230, "$12k", "$1.2万"), (922_000, "$922k", "$92万"),
     (1_234_567, "$1.2M", "$123万"), (2.5e9, "$2.5B", "$25亿"), (2.484, "$2.48", "$2.48")],
)  # fmt: skip
def test_money_is_counted_as_the_language_counts(usd, english, chinese):
    """Thousands and millions, or ten thousands and hundred millions; and what is written is read back."""
    try:
        for language, text in (("en", english), ("zh", chinese)):
            i18n.use_language(language)
            assert money(usd) == text
            assert parse_money(text).amount == pytest.approx(usd, rel=0.06)
    finally:
        i18n.use_language()


def test_chinese_lines_are_broken_as_chinese_is():
    """Beside any sign, but no stop at the start of a line, no bracket at its end and no figure in two."""
    text = "成本（每次运行）：抽样中有 80% 在 $9,240 到 $1.9万之间（中位数 $1.2万），影响最大的是速度"
    for width in range(12, 70):
        lines = filled(text, width)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert max(map(cells, lines)) <= width
        assert not [line for line in lines if line[0] in "，。；：、）万" or line[-1] == "（"]
        page = Page(Style(width=width))
        page.line(text)
        assert page.text().rstrip("\n").split("\n") == lines
