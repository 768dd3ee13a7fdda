"""The server for assistants, through the real client of the protocol."""

import sys
from importlib.util import find_spec

import pytest

from gpuselect.cli import main


@pytest.mark.skipif(find_spec("mcp") is not None, reason="the extra is installed")
def test_without_the_extra_there_is_a_sentence(capsys):
    """It says what to install."""
    with pytest.raises(SystemExit) as leaving:
        main(["mcp"])
    assert leaving.value.code == 2
    assert "gpuselect-advisor[mcp]" in capsys.readouterr().err


def test_a_missing_module_of_the_extra_is_a_sentence(capsys, monkeypatch):
    """The same, wherever the test runs."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    monkeypatch.delitem(sys.modules, "gpuselect.mcp_server", raising=False)
    with pytest.raises(SystemExit) as leaving:
        main(["mcp"])
    assert leaving.value.code == 2
    assert "needs the extra" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_four_tools_through_a_client():
    """A process of the program, spoken to as an assistant would."""
    mcp = pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
    import anyio
    from mcp.client.stdio import stdio_client

    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-c", "from gpuselect.cli import main; main()", "mcp"],
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    found = {}

    async def talk():
        async with mcp.Client(stdio_client(server)) as client:
            found["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
            work = {"task": "inference", "model": "llama-3.1-8b"}
            found["fit"] = await client.call_tool("estimate", {"on": "h100", "workload": work})
            found["best"] = await client.call_tool(
                "recommend", {"workload": {**work, "gpus": ["l4", "h100"]}}
            )
            found["cards"] = await client.call_tool("compare", {"cards": ["a100", "h100"]})
            found["rule"] = await client.call_tool("explain", {"code": "memory-exceeded"})
            found["wrong"] = await client.call_tool("compare", {"cards": ["a100", "h1oo"]})

    anyio.run(talk)
    assert found["tools"] == ["compare", "estimate", "explain", "recommend"]
    assert found["fit"].structured_content["state"] == "fits"
    best = found["best"].structured_content
    assert best["recommendations"][0]["rank"] == 1
    assert best["omitted"]["considered"] > 300
    assert found["cards"].structured_content["accelerators"] == ["a100-sxm4-80gb", "h100-sxm5-80gb"]
    assert found["rule"].structured_content["override"]
    assert found["wrong"].is_error
    assert "did you mean h100" in found["wrong"].content[0].text
