"""The shell: completion, doctor, questions on a terminal, pipes, widths and locales."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuselect.cli import main, output
from gpuselect.cli.completion import SCRIPTS, candidates
from gpuselect.cli.questions import MOST, TASKS, after, ask, words
from gpuselect.errors import InputError
from gpuselect.report.blocks import Grid
from gpuselect.report.console import Page, Style


def environment(**extra):
    """The environment of a process that runs this program."""
    base = {"PYTHONPATH": os.pathsep.join(sys.path), "GPUSELECT_NO_CONFIG": "1", "TERM": "xterm"}
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("GPUSELECT", "COLUMNS", "LC_", "LANG"))}
    return {**keep, "LC_ALL": "C.UTF-8", **base, **extra}


PROGRAM = [sys.executable, "-c", "from gpuselect.cli import main; main()"]


def piped(*arguments, **extra):
    """Run in a pipe."""
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, check=False, env=environment(**extra),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def on_terminal(*arguments, answers=(), columns=80, limit_s=30, **extra):
    """Run on a pseudo-terminal of that width and type the answers; exit code and what the screen got."""
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdin=child, stdout=child, stderr=child, env=environment(**extra)
    )
    os.close(child)
    text, left, end = b"", list(answers), time.monotonic() + limit_s
    while time.monotonic() < end:
        if not select.select([parent], [], [], 0.2)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            text += os.read(parent, 65536)
        except OSError:
            break
        if left and text.endswith(b"   > "):
            os.write(parent, f"{left.pop(0)}\n".encode())
    os.close(parent)
    return process.wait(timeout=5), text.decode().replace("\r\n", "\n")


# --- completion and doctor ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ([""], "recommend"), (["est"], "estimate"), (["recommend", "--ta"], "--task"),
        (["recommend", "--task", "fin"], "finetune"), (["recommend", "--model", "qwen3-8"], "qwen3-8b"),
        (["recommend", "--gpus", "a100,h100-n"], "a100,h100-nvl-94gb"),
        (["estimate", "--on", "4xh100-s"], "4xh100-sxm5-80gb"), (["compare", "mi30"], "mi300x-192gb"),
        (["show", "llama-3.1-8"], "llama-3.1-8b"), (["explain", "memory-e"], "memory-exceeded"),
        (["list", "acc"], "accelerators"), (["recommend", "--engine", "vl"], "vllm"),
        (["recommend", "--format", "m"], "markdown"), (["completion", "z"], "zsh"),
    ],
)  # fmt: skip
def test_names_are_completed(typed, found):
    """Commands, flags, cards, models, frameworks, codes and words."""
    assert found in candidates(typed)


def test_nothing_is_completed_where_anything_may_stand():
    """A number is the typist's, an unknown command nobody's."""
    assert candidates(["recommend", "--budget", "$"]) == []
    assert candidates(["nonsense", ""]) == []


@pytest.mark.parametrize("shell", list(SCRIPTS))
def test_each_shell_has_a_script(capsys, shell):
    """The script calls back, and changes no file."""
    with pytest.raises(SystemExit) as leaving:
        main(["completion", shell])
    assert leaving.value.code == 0
    assert "gpuselect __complete" in capsys.readouterr().out


def test_the_bash_script_completes():
    """Through a real bash."""
    program = f"gpuselect() {{ {sys.executable} -m gpuselect $@; }}\n"
    typed = "COMP_WORDS=(gpuselect compare h100-n); COMP_CWORD=2; _gpuselect; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["/bin/bash", "-c", program + SCRIPTS["bash"] + typed], capture_output=True, text=True, check=False,
        env=environment(),
    )  # fmt: skip
    assert done.stdout.split()[0] == "h100-nvl-94gb", done.stderr


def test_doctor_is_whole_and_names_no_path(capsys, tmp_path, monkeypatch):
    """Versions, data, overlays and terminal; nothing that says who or where."""
    own = tmp_path / "secret-project"
    own.mkdir()
    (own / "prices.yaml").write_text("[]\n")
    with pytest.raises(SystemExit) as leaving:
        main(["doctor", "--json", "--catalog", str(own)])
    out = capsys.readouterr().out
    payload = json.loads(out)
    assert leaving.value.code == 0
    assert payload["data"]["accelerators"] > 300
    assert payload["data"]["overlays"] == ["1: 1 files (prices.yaml)"]
    assert {"gpuselect", "python", "platform", "libraries"} <= set(payload["program"])
    assert "secret-project" not in out
    assert str(tmp_path) not in out


def test_doctor_says_what_is_damaged(capsys, tmp_path, monkeypatch):
    """Exit 3 with the fault, still without the folder it is in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpus.yaml").write_text("- id: x\n  nonsense: 1\n")
    with pytest.raises(SystemExit) as leaving:
        main(["doctor", "--catalog", str(tmp_path)])
    out = capsys.readouterr().out
    assert leaving.value.code == 3
    assert "fault: " in out
    assert str(tmp_path) not in out


# --- questions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_no_more_than_eight_questions(task):
    """With the first one, which task."""
    assert 1 + len(after(task)) <= MOST


def test_an_answer_that_is_not_understood_is_asked_again():
    """Three times, then it ends."""
    said = []
    replies = iter(["9", "inference", "notamodel", "8B", "", "", "", "", "", ""])
    answers = ask(lambda prompt: next(replies), say=said.append)
    assert answers == {"task": "inference", "params": "8B"}
    assert any("notamodel" in line for line in said)
    with pytest.raises(InputError, match="3 answers"):
        ask(lambda prompt: "?", say=said.append)


def test_questions_on_a_terminal_give_an_answer_and_the_command():
    """What was answered is a command line that can be typed the next time."""
    replies = ["3", "llama-3.1-8b", "8", "", "", "$5/h", "", "cost"]
    code, screen = on_terminal("recommend", answers=replies, columns=100)
    assert code == 0, screen
    command = "gpuselect recommend --task inference --model llama-3.1-8b --concurrency 8 --budget '$5/h'"
    assert f"{command} --prefer cost" in screen
    assert "8. " in screen
    assert "9. " not in screen.split("The same")[0]
    assert screen.index("The same without questions") < screen.index("Options")


def test_without_a_terminal_there_are_no_questions():
    """A script gets an error, not a prompt that nobody answers."""
    done = piped("recommend")
    assert done.returncode == 2
    assert b"no workload given" in done.stderr


def test_words_are_quoted():
    """The equivalent command survives a shell."""
    assert words({"have": "2x3090", "ttft": "p95 < 1s"}) == ["--have", "2x3090", "--ttft", "'p95 < 1s'"]


# --- output -------------------------------------------------------------------------------------

WIDE = ("compare", "a100", "h100", "h200", "b200", "mi300x", "mi325x", "gaudi3")


@pytest.mark.parametrize("columns", [60, 120, 200])
def test_no_line_is_wider_than_the_terminal(columns):
    """Columns go, in their order, and that is said; --wide keeps all."""
    code, screen = on_terminal(*WIDE, columns=columns, NO_COLOR="1")
    assert code == 0
    assert max(map(len, screen.splitlines())) <= columns
    assert ("Columns left out at this width" in screen) is (columns < 200)


def test_a_pipe_gets_everything():
    """Natural width, no frame, no colour, whatever the terminal was."""
    out = piped(*WIDE, COLUMNS="60").stdout.decode()
    assert "left out" not in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) > 120


@pytest.mark.parametrize(
    ("arguments", "extra", "colour"),
    [
        ({}, {}, True), ({"color": "never"}, {}, False), ({"color": "always"}, {"NO_COLOR": "1"}, True),
        ({"color": "auto"}, {"NO_COLOR": "1"}, False), ({"color": "always", "no_color": True}, {}, False),
        ({}, {"TERM": "dumb"}, False),
    ],
)  # fmt: skip
def test_colour(monkeypatch, arguments, extra, colour):
    """A flag wins over the environment."""
    for name in ("NO_COLOR", "TERM", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in extra.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert output.terminal_style(arguments).color is colour


def test_colour_on_a_real_terminal():
    """The escape signs arrive."""
    assert "\x1b[" in on_terminal("explain", "memory-exceeded")[1]


def test_an_unknown_colour_is_refused(capsys):
    """With what is allowed."""
    with pytest.raises(SystemExit) as leaving:
        main(["explain", "memory-exceeded", "--color", "blue"])
    assert leaving.value.code == 2
    assert "auto, always, never" in capsys.readouterr().err


def test_another_locale_loses_no_meaning():
    """ASCII marks instead of boxes; JSON stays JSON."""
    extra = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    text = piped("explain", "memory-exceeded", **extra)
    assert text.returncode == 0
    assert text.stdout.isascii()
    answer = piped("list", "formats", "--json", **extra)
    assert answer.returncode == 0
    assert answer.stdout.isascii()
    assert json.loads(answer.stdout) == json.loads(piped("list", "formats", "--json").stdout)


@pytest.mark.parametrize("encoding", ["gb18030", "gbk"])
def test_a_chinese_terminal_of_another_encoding_shows_chinese(encoding):
    """The sentences arrive in its encoding; signs that GBK lacks are spelt."""
    words = [sys.executable, "-m", "gpuselect", "--lang", "zh", "explain", "memory-tight"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    text = subprocess.run(words, capture_output=True, check=True, env=environment).stdout.decode(encoding)
    assert "需求占可用显存的" in text
    assert "?" not in text


def test_a_name_does_not_steer_the_terminal():
    """Control characters of a user's file are left out."""
    for style in (Style(), Style(width=80), Style(width=80, color=True)):
        page = Page(style)
        page.line("red \x1b]0;owned\x07")
        page.grid(Grid(("a",), (("\x1b[2J",),)))
        assert "\x1b]" not in page.text()
        assert "\x1b[2J" not in page.text()


def test_a_full_disk_is_a_sentence():
    """Standard output may be a file too."""
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("no /dev/full here")
    with device.open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "list", "rules"], stdout=full, stderr=subprocess.PIPE, check=False, env=environment()
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: cannot read or write the output: No space left")
    assert done.stderr.count(b"\n") == 1


def test_ctrl_c_leaves_quietly():
    """130, or the end by the signal itself, which a shell reports as 130; no traceback, wherever it comes."""
    process = subprocess.Popen(
        [*PROGRAM, "recommend", "--task", "pretrain", "--params", "400B"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=20)
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert b"Traceback" not in err


# --- files --------------------------------------------------------------------------------------


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    """Ctrl-C between the first and the last byte."""
    path = tmp_path / "decision.md"
    path.write_text("old")

    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        output.write_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed_and_rights_are_kept(tmp_path):
    """The file that a link leads to is replaced, not the link."""
    target, link = tmp_path / "real.md", tmp_path / "link.md"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    output.write_file(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_letters_that_are_no_text_do_not_stop_a_report(tmp_path):
    """A lone surrogate comes from a file name that is not UTF-8."""
    output.write_file(tmp_path / "x.md", "a\udcffb")
    assert (tmp_path / "x.md").read_text() == "a?b"
