import subprocess
import sys

import pytest

READER = """
import sys
from slipway.api.nesting import allow_any_nesting
from slipway.apiserver.errors import Garbled
from slipway.apiserver.wire import JsonObject, decode

allow_any_nesting()
levels = int(sys.argv[1])
try:
    decode(JsonObject, b'{"of":' * levels + b"1" + b"}" * levels)
    print("read")
except Garbled:
    print("garbled")
"""


@pytest.mark.parametrize(
    ("levels", "outcome"),
    [(10_000, "read"), (100_000, "garbled")],
    ids=["as deep as an API server takes", "deeper"],
)
def test_no_depth_of_an_answer_ends_the_process(levels: int, outcome: str) -> None:
    ended = subprocess.run([sys.executable, "-c", READER, str(levels)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, outcome), ended.stderr
