"""What programs write is kept to the last line, however much it is."""

from typing import Any, Final

from tests.local_engine.engine import User

HOSTS: Final = 8
LINES: Final = 4000
"""Of each host, a thousand a second."""
LONG: Final = 100_000
"""Characters of a line; Docker cuts them after 16,384 bytes."""
FLOOD: Final = f"""
for second in 0 1 2 3; do seq $((second * 1000 + 1)) $((second * 1000 + 1000)); sleep 1; done
head -c {LONG} /dev/zero | tr '\\0' x; echo
echo 'no newline' | tr -d '\\n'
"""


# N-18: every line of every host, while it is written, while there are containers, and from what is kept of them.
def test_every_line_is_there(user: User) -> None:
    user.submit(FLOOD, hosts=HOSTS)
    followed = user.command("logs", "train", "-f").out
    assert user.ended()["phase"] == "Succeeded"
    kept = user.command("logs", "train").out
    numbers = [str(number) for number in range(1, LINES + 1)]
    for text in (followed, kept):
        lines: dict[str, list[str]] = {}
        for line in text.splitlines():
            host, _, rest = line.partition(" ")
            lines.setdefault(host, []).append(rest)
        assert sorted(lines) == [f"[0/{host}]" for host in range(HOSTS)]
        for host, found in lines.items():
            assert found[:LINES] == numbers, host
            assert [len(line) for line in found[LINES:-1]] == [LONG], host
            assert found[-1] == "no newline"


# A program that has no room left is a program that fails, with its own words.
def test_a_program_without_room_fails_with_its_words(user: User) -> None:
    volume: dict[str, Any] = {"name": "small", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    mount = {"name": "small", "mountPath": "/small"}
    script = "dd if=/dev/zero of=/small/file bs=1M count=9 || exit 28"
    user.submit(script, volumes=[volume], volumeMounts=[mount], retries={"maxFailures": 1})
    status = user.ended()
    root = status["attempts"][0]["root"]
    assert (status["phase"], root["exitCode"]) == ("Failed", 28)
    assert "No space left on device" in root["log"]
