"""Live prices: recorded feeds, and a server that fails, stalls, truncates and lies."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuselect.cli import main
from gpuselect.cli.prices import age_rows
from gpuselect.readers import price_refresh
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.price_feeds import Ask, FeedError, Refreshed, as_rows, gpuhunt_asks, skypilot_asks
from gpuselect.readers.price_refresh import fetch, merged, read_feed, read_rows, refresh, write_rows

TODAY = "2026-11-30"
HEAD = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
# recorded on 30 November 2026 from the feed's file of one provider, shortened
NEBIUS = HEAD + (
    "cpu-d3_4vcpu-16gb,,0,4,16,0.0992,eu-north1,,\n"
    "gpu-h100-sxm_8gpu-128vcpu-1600gb,H100,8,128,1600,23.60,eu-north1,\"{'Gpus': []}\",10.00\n"
    'gpu-h200-sxm_1gpu-16vcpu-200gb,H200,1,16,200,3.50,us-central1,"{}",1.45\n'
    'gpu-brand-new_8gpu,Z100,8,128,1600,99.00,eu-north1,"{}",\n'
)
Answer = Callable[[BaseHTTPRequestHandler], None]


def text(body: str, *, status: int = 200, promised: int | None = None) -> Answer:
    """An answer of the server; `promised` is the length it claims."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        content = body.encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content) if promised is None else promised))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def stall(handler: BaseHTTPRequestHandler) -> None:
    """Say nothing for longer than anybody waits."""
    time.sleep(0.6)
    handler.close_connection = True


def drip(handler: BaseHTTPRequestHandler) -> None:
    """Keep the line busy with a byte now and then, for ever."""
    handler.send_response(200)
    handler.end_headers()
    for _step in range(12):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.05)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Start a server on this machine that gives one answer; the result is its address."""
    servers = []

    def start(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                try:
                    answer(self)
                except OSError:
                    self.close_connection = True  # the client has left

            def log_message(self, *_arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def rows_of(feed: str) -> Refreshed:
    """Rows of the recorded provider."""
    return as_rows(
        skypilot_asks(feed, provider="nebius"), load_catalog().prices, provider="nebius",
        feed="skypilot-catalog", today=TODAY,
    )  # fmt: skip


def test_a_recorded_feed_becomes_dated_rows() -> None:
    """On-demand and spot of instances that the catalog knows; the price is that of the whole instance."""
    found = rows_of(NEBIUS)
    assert [(r["hardware"], r["n_accel"], r["term"], r["price"]) for r in found.rows] == [
        ("h100-sxm5-80gb", 8, "on-demand", 23.6), ("h100-sxm5-80gb", 8, "spot", 10.0),
        ("h200-sxm-141gb", 1, "on-demand", 3.5), ("h200-sxm-141gb", 1, "spot", 1.45),
    ]  # fmt: skip
    assert {(r["as_of"], r["source"]) for r in found.rows} == {(TODAY, "skypilot-catalog:nebius")}
    assert found.unknown == 1


def test_zones_of_a_region_give_their_median() -> None:
    """AWS spot comes by zone."""
    asks = [Ask("gpu-h200-sxm_1gpu-16vcpu-200gb", 1, "r", spot=True, price=p) for p in (1.0, 9.0, 2.0)]
    found = as_rows(asks, load_catalog().prices, provider="nebius", feed="f", today=TODAY)
    assert [row["price"] for row in found.rows] == [2.0]


def test_a_price_that_jumps_is_not_believed_without_consent() -> None:
    """A tenth of the known price is a mistake until somebody says otherwise."""
    cheap = NEBIUS.replace("23.60", "2.36")
    found = rows_of(cheap)
    assert [row["term"] for row in found.rows if row["n_accel"] == 8] == ["spot"]
    assert "23.6 -> 2.36" in found.jumps[0]
    taken = as_rows(
        skypilot_asks(cheap, provider="nebius"), load_catalog().prices, provider="nebius", feed="f",
        today=TODAY, accept_jumps=True,
    )  # fmt: skip
    assert taken.jumps == ()
    assert 2.36 in [row["price"] for row in taken.rows]


@pytest.mark.parametrize(
    ("feed", "said"),
    [
        ("<html>503 Service Unavailable</html>", "no column"), ("", "no column"),
        (NEBIUS.replace("23.60", "cheap"), "'cheap' is no price"),
        (NEBIUS.replace("23.60", "-4"), "'-4' is no price"), (NEBIUS.replace("23.60", "nan"), "is no price"),
        (NEBIUS[: NEBIUS.index("1.45")].rsplit(",", 3)[0] + "\n", "cut or too long"),
    ],
)  # fmt: skip
def test_a_lying_feed_is_refused(feed: str, said: str) -> None:
    """An error page, an empty answer, words for numbers, a row that ends early."""
    with pytest.raises(FeedError, match=said):
        skypilot_asks(feed, provider="nebius")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (text("gone", status=404), "Not Found"), (text("oops", status=500), "Internal Server Error"),
        (stall, "no whole answer"), (drip, "no whole answer"), (text("short", promised=5000), "cut short"),
        (text("x" * 200_000), "too large"),
    ],
)  # fmt: skip
def test_a_bad_server_is_a_sentence(
    serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch, answer: Answer, said: str
) -> None:
    """It fails, stalls, drips, truncates, floods: within the time given, and in words."""
    monkeypatch.setattr(price_refresh, "LARGEST", 100_000)
    start = time.monotonic()
    with pytest.raises(FeedError, match=said):
        fetch(serve(answer), seconds=0.3)
    assert time.monotonic() - start < 2


def test_nobody_there_is_a_sentence() -> None:
    """Offline."""
    with pytest.raises(FeedError, match=r"127\.0\.0\.1"):
        fetch("http://127.0.0.1:9/vms.csv", seconds=0.5)


def test_a_failing_provider_keeps_its_last_prices(serve: Callable[[Answer], str], tmp_path: Path) -> None:
    """First everything is fine, then the server lies: the file stays as it was, byte by byte."""
    known = load_catalog().prices
    good, bad = serve(text(NEBIUS)), serve(text("<html>"))

    def ask(base: str) -> list[Refreshed | FeedError]:
        return refresh(
            tmp_path, known, feed="skypilot-catalog", providers=["nebius"], today=TODAY,
            read=lambda feed, provider: read_feed(feed, provider, base=base, seconds=2),
        )  # fmt: skip

    assert isinstance(ask(good)[0], Refreshed)
    before = (tmp_path / "prices.csv").read_bytes()
    assert isinstance(ask(bad)[0], FeedError)
    assert (tmp_path / "prices.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["prices.csv"]
    over = load_catalog(overlays=[tmp_path]).prices
    mine = [p for p in over if p.source == "skypilot-catalog:nebius"]
    assert len(mine) == 4
    assert len(over) == len(known) + sum(
        not any(_same(p, q) for q in known) for p in mine
    )  # replaced, not doubled


def _same(a: object, b: object) -> bool:
    keys = ("hardware", "n_accel", "provider", "instance", "region", "term", "kind")
    return all(getattr(a, key) == getattr(b, key) for key in keys)


def test_a_row_of_ones_own_stays(tmp_path: Path) -> None:
    """A negotiated price for the same instance wins over the feed's; an old refreshed row goes."""
    found = rows_of(NEBIUS)
    own = {**found.rows[0], "price": 15.0, "source": "quotation 4711"}
    gone = {**found.rows[0], "instance": "withdrawn", "source": "skypilot-catalog:nebius"}
    other = {**found.rows[0], "provider": "aws", "source": "skypilot-catalog:aws"}
    path = tmp_path / "deep" / "prices.csv"
    write_rows(path, merged([own, gone, other], [found]))
    rows = read_rows(path)
    assert own in rows
    assert other in rows
    assert gone not in rows
    assert found.rows[0] not in rows
    assert len(rows) == 5


def test_gpuhunt_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its catalog items have the fields recorded here; absent, the feed says what to install."""
    item = SimpleNamespace(
        instance_name="p5.48xlarge", location="us-east-1", price=55.04, gpu_count=8, gpu_name="H100",
        spot=False,
    )  # fmt: skip
    empty = SimpleNamespace(
        instance_name="c5", location="us-east-1", price=0.1, gpu_count=0, gpu_name=None, spot=False
    )
    fake = SimpleNamespace(query=lambda provider: [item, empty] if provider == "aws" else [])
    monkeypatch.setitem(sys.modules, "gpuhunt", fake)
    assert read_feed("gpuhunt", "aws") == gpuhunt_asks([item])
    found = as_rows(
        read_feed("gpuhunt", "aws"), load_catalog().prices, provider="aws", feed="gpuhunt", today=TODAY
    )
    assert [(r["hardware"], r["price"]) for r in found.rows] == [("h100-sxm5-80gb", 55.04)]
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    with pytest.raises(FeedError, match=r"pip install 'gpuselect-advisor\[prices\]'"):
        read_feed("gpuhunt", "aws")

    def fail(provider: str) -> None:
        raise RuntimeError(f"no catalog of {provider}")

    monkeypatch.setitem(sys.modules, "gpuhunt", SimpleNamespace(query=fail))
    with pytest.raises(FeedError, match="no catalog of aws"):
        read_feed("gpuhunt", "aws")


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[object, str, str]]:
    """The program with a folder of its own."""
    monkeypatch.setattr("gpuselect.cli.config.user_folder", lambda: tmp_path)

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        streams = capsys.readouterr()
        return leaving.value.code, streams.out, streams.err

    return run


def test_the_command_refreshes_and_says_what_it_kept(
    call: Callable[..., tuple[object, str, str]], serve: Callable[[Answer], str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    """One provider answers, one does not: exit 0; none does: exit 1. Answers rest on the new ones."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        (text(NEBIUS) if "nebius" in handler.path else text("no", status=500))(handler)

    base = serve(answer)

    def read(feed: str, provider: str, *, seconds: float) -> list[Ask]:
        return read_feed(feed, provider, base=base, seconds=seconds)

    monkeypatch.setattr(price_refresh, "read_feed", read)
    code, out, err = call("prices", "refresh", "--provider", "nebius", "--provider", "aws")
    assert code == 0
    assert "nebius: 4 prices; 1 instances" in out
    assert str(tmp_path) in out
    assert "kept the last prices" in err
    assert "Internal Server Error" in err
    code, out, _err = call("prices", "refresh", "--provider", "aws", "--json")
    payload = json.loads(out)
    assert code == 1
    assert payload["refreshed"] == []
    assert len(payload["kept"]) == 1
    code, out, _err = call("prices", "age", "--provider", "nebius", "--json")
    assert code == 0
    assert json.loads(out)["providers"][0]["newest"] >= TODAY


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("refersh",), "did you mean refresh"), (("refresh", "--provider", "awss"), "did you mean aws"),
        (("refresh", "--feed", "sky"), "allowed are skypilot-catalog, gpuhunt"),
        (("refresh", "--timeout", "0"), "between 0 and 600"),
    ],
)  # fmt: skip
def test_a_slip_is_a_sentence(
    call: Callable[..., tuple[object, str, str]], arguments: tuple[str, ...], said: str
) -> None:
    """Exit 2, near match, nothing fetched."""
    code, _out, err = call("prices", *arguments)
    assert code == 2
    assert said in err


def test_age_by_provider() -> None:
    """Newest date, months, undated and stale rows of the shipped prices."""
    rows = {row["provider"]: row for row in age_rows(load_catalog().prices, today=TODAY)}
    assert rows["aws"]["newest"] == "2026-07-20"
    assert rows["aws"]["age_months"] == pytest.approx(4.3, abs=0.1)
    assert rows["amazon"]["stale"] == rows["amazon"]["rows"]
    assert sum(row["rows"] for row in rows.values()) == len(load_catalog().prices)
