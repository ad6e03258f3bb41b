"""What a waiting person sees, and what a transcript keeps."""

import io

from rich.console import Console

from slipway.local.images.progress import Plain, Silent, shown_on
from slipway.local.images.transcript import KEPT_LINES, Transcript


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100)


def text_of(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def test_elsewhere_a_line_for_each_change_and_none_for_each_block() -> None:
    shown = console(terminal=False)
    with shown_on(shown) as progress:
        assert isinstance(progress, Plain)
        progress.step("Step 1/2 : RUN [x]")
        progress.line("[bold]as it is[/bold]")
        for done in range(0, 1000, 10):
            progress.layer("abc", "Pushing", done, 1000)
        progress.layer("abc", "Pushed", 0, 0)
    assert text_of(shown) == "Step 1/2 : RUN [x]\n[bold]as it is[/bold]\nabc: Pushing\nabc: Pushed\n"


def test_in_a_terminal_the_running_step_and_a_bar_for_each_layer() -> None:
    shown = console(terminal=True)
    with shown_on(shown) as progress:
        progress.step("Step 1/2 : RUN [x]")
        progress.step("Step 2/2 : RUN [y]")
        progress.line("[bold]as it is[/bold]")
        progress.layer("abc", "Preparing", 0, 0)
        progress.layer("abc", "Pushing", 500_000, 1_000_000)
        progress.layer("abc", "Pushing", 1_000_000, 1_000_000)
        progress.layer("abc", "Pushed", 0, 0)
    text = text_of(shown)
    assert "Step 1/2 : RUN [x]" in text
    assert "[bold]as it is[/bold]" in text
    assert "abc: Pushed" in text
    assert "0.5/1.0 MB" in text
    # The running step has no size, and none is shown beside it.
    assert "? bytes" not in text


def test_a_transcript_keeps_the_last_lines_of_the_last_step() -> None:
    transcript = Transcript(Silent())
    transcript.add({"stream": "Step 1/2 : RUN a\n"})
    transcript.add({"stream": "of the first\n"})
    transcript.add({"stream": "Step 2/2 : RUN b\n ---> Running in 0123\n"})
    for number in range(30):
        transcript.add({"stream": "\x1b[91mline "})
        transcript.add({"stream": f"{number}\n\x1b[0m"})
    transcript.add({"stream": "no end"})
    transcript.add({"stream": "\nRemoving intermediate container 0123\n"})
    transcript.add({"error": "it broke", "errorDetail": {"code": 3, "message": "it broke"}})
    said = transcript.said().splitlines()
    assert transcript.step == "2/2: RUN b"
    assert said[-3:] == ["line 29", "no end", "it broke"]
    assert len(said) == KEPT_LINES + 1
    assert transcript.exit_code == 3
