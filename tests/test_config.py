"""Settings: what wins over what, and what is refused."""

import json

import pytest

from gpuselect.cli import config, main
from gpuselect.errors import InputError


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """A user's folder and a project folder with one below it, where the call is made."""
    for name in [n for n in __import__("os").environ if n.startswith("GPUSELECT_")]:
        monkeypatch.delenv(name)
    (tmp_path / "user").mkdir()
    (tmp_path / "project/below").mkdir(parents=True)
    monkeypatch.setattr("gpuselect.cli.config.user_folder", lambda: tmp_path / "user")
    monkeypatch.chdir(tmp_path / "project/below")
    return tmp_path


def made(name):
    """Value and origin of a setting."""
    setting = config.settings()[name]
    return setting.value, setting.origin


def test_variable_over_project_over_user(places, monkeypatch):
    """The documented order; the nearest place is named."""
    (places / "user/config.toml").write_text('region = "us"\nyears = 5\n')
    assert made("region") == ("us", str(places / "user/config.toml"))
    (places / "project/gpuselect.toml").write_text('region = "eu"\n')
    assert made("region") == ("eu", str(places / "project/gpuselect.toml"))
    assert made("years")[0] == 5
    monkeypatch.setenv("GPUSELECT_REGION", "asia")
    assert made("region") == ("asia", "GPUSELECT_REGION")
    monkeypatch.setenv("GPUSELECT_NO_CONFIG", "1")
    assert config.settings() == {}


def test_pyproject_counts_when_it_has_the_table(places):
    """A pyproject.toml of something else does not end the search."""
    (places / "project/below/pyproject.toml").write_text('[project]\nname = "x"\n')
    (places / "project/pyproject.toml").write_text('[tool.gpuselect]\nmax-count = 8\nvendors = ["amd"]\n')
    assert made("max_count")[0] == 8
    assert made("vendors")[0] == ["amd"]


def test_flag_and_workload_file_win(places, capsys, monkeypatch):
    """A setting lies under both; what counted is said on standard error."""
    seen = []
    monkeypatch.setattr(
        "gpuselect.cli.recommend.decide",
        lambda arguments: (
            seen.append(__import__("gpuselect.cli.flags").cli.flags.workload_mapping(arguments)) or 1 / 0
        ),
    )
    (places / "user/config.toml").write_text('region = "us"\nyears = 2\nutilization = "50%"\n')
    (places / "work.yaml").write_text("task: inference\nparams: 7B\nyears: 4\n")
    with pytest.raises(SystemExit):
        main(["recommend", "--workload", str(places / "work.yaml"), "--region", "eu"])
    assert seen[0] == {
        "task": "inference", "params": "7B", "years": 4, "region": "eu", "utilization": "50%",
    }  # fmt: skip
    err = capsys.readouterr().err
    assert "from the configuration: utilization=50%" in err
    assert "region" not in err.splitlines()[0]


def test_a_setting_alone_is_no_question(places, capsys):
    """A region in a file does not make `recommend` answer something nobody asked."""
    (places / "user/config.toml").write_text('region = "us"\n')
    with pytest.raises(SystemExit) as leaving:
        main(["recommend"])
    assert leaving.value.code == 2
    assert "no workload given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("regoin = 'eu'", "no setting 'regoin'; did you mean region?"),
        ("task = 'inference'", "belongs to the question"),
        ("wide = 'perhaps'", "wide is true or false"),
        ("region = ['a']", "region takes one value"),
        ("region = ", "config.toml: "),
        ("x = '" + "y" * 200_000 + "'", "larger than"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_place(places, text, message):
    """A typing error in a file is no silent nothing."""
    (places / "user/config.toml").write_text(text)
    with pytest.raises(InputError, match=r"config\.toml") as error:
        config.settings()
    assert message in str(error.value)


def test_an_unknown_variable_is_refused(monkeypatch):
    """A variable without effect would be the worst of both."""
    monkeypatch.setenv("GPUSELECT_REGOIN", "eu")
    with pytest.raises(InputError, match="GPUSELECT_REGOIN: no setting 'regoin'; did you mean region"):
        config.settings()


def test_show_tells_the_origin(places, capsys, monkeypatch):
    """`config show --origin`, for people and for programs."""
    monkeypatch.setenv("GPUSELECT_COLOR", "never")
    (places / "user/config.toml").write_text('format = "json"\n')
    with pytest.raises(SystemExit):
        main(["config", "show", "--origin"])
    out = capsys.readouterr().out
    assert "GPUSELECT_COLOR" in out
    assert "Files that were read" in out
    with pytest.raises(SystemExit):
        main(["config", "show", "--json"])
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["settings"]]
    assert names == ["format", "color"]


def test_a_form_of_output_that_a_command_lacks_is_left_out(places, capsys):
    """`format = "csv"` must not break the commands that write no CSV, nor --json."""
    (places / "user/config.toml").write_text('format = "csv"\n')
    for arguments, start in ((["explain", "memory-exceeded"], "memory-exceeded"),
                             (["list", "rules"], "code,"), (["list", "rules", "--json"], "{")):  # fmt: skip
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        assert leaving.value.code == 0
        assert capsys.readouterr().out.startswith(start)
