"""What became of every fault that was injected: one line of a table, and the sentences to look into when it is not clean.

A fault is *detected* when it was said, or when it ended the process; *harmless* when what was asked for was done in spite of it;
*silent* when neither. It is *recovered* when the last good state came back bit for bit and the next action worked, else *lost*.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    injected: int = 0
    detected: int = 0
    harmless: int = 0
    recovered: int = 0
    wrong: list[str] = field(default_factory=list)  # a description of every fault that was silent or lost
    silent: int = 0
    lost: int = 0

    def add(self, fault: str, *, detected: bool, recovered: bool, harmless: bool = False, told: str = "") -> None:
        """`told` is what the system said, for the description."""
        self.injected += 1
        self.detected += detected
        self.harmless += harmless and not detected
        self.recovered += recovered
        self.silent += not (detected or harmless)
        self.lost += not recovered
        if not (detected or harmless) or not recovered:
            said = "detected" if detected else "harmless" if harmless else "silent"
            self.wrong.append(f"{fault}: {said}, {'recovered' if recovered else 'lost'} [{told}]")

    def as_dict(self) -> dict[str, int]:
        return {n: getattr(self, n) for n in ("injected", "detected", "harmless", "recovered", "lost", "silent")}


def one_sentence(told: str) -> bool:
    """Whether this is what a person may be shown: short, on one line, and no Python."""
    return 20 < len(told) < 600 and "\n" not in told.strip() and "Traceback" not in told and told.rstrip()[-1] in ".?)"
