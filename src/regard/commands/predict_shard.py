"""`regard predict` in several processes, as torchrun starts them: each answers a share of a file, and the first writes it all.

The shares are whole chunks that follow each other, and the texts keep their numbers, so the file is the one that one process
writes. What the others have answered waits in files without a name, and comes to the first through the process group: the
machines need no folder in common, and a process that is killed leaves nothing behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile

from regard.commands.predict import arriving, open_input
from regard.commands.predict_table import is_table, predict_table
from regard.commands.share import Share
from regard.core.atomic import check_place, partial_file
from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.runs.folder import choose_device
from regard.runs.protocols import Draws, Forecasting, Predictor
from regard.tasks.notices import report_unknown_words
from regard.tasks.registry import open_run
from regard.training.distributed import World, process_group

PIECE = 1 << 20  # characters sent at once
IN_MEMORY = 1 << 26  # bytes of answers that wait; more go to a temporary file
PATIENCE = timedelta(days=30)  # for the slowest share; a process that died is noticed at once
AGAIN = "Nothing is under the name of --output; run the same command again, with as many processes as you like."


def predict_shard(
    run: str,
    texts: Sequence[str] | None,
    input: Path | None,
    output: Path | None,
    settings: Sequence[str],
    device: str | None,
    as_json: bool,
    weights: str,
) -> None:
    """Answer the share of this process; the first writes `output`."""
    with process_group("predict", AGAIN, PATIENCE) as world:
        if texts or input is None or output is None:
            raise UserError(
                f"there are {world.size} processes (WORLD_SIZE), which share the lines of a file; give --input FILE and "
                "--output FILE, or unset WORLD_SIZE."
            )
        with world.fail_together():
            if world.is_main:
                check_place(output, "--output")
            found = _fingerprint(input)
        world.check_equal(
            found, f"--input {input} is not the same file for all {world.size} processes; copy it to every machine."
        )
        answers = _open(run, settings, str(world.local_device(choose_device(device))), weights, world)
        share = Share(world.rank, world.size)
        if world.is_main:
            with partial_file(output, "--output") as file:
                _answer(answers, input, output, as_json, file.write, share)
                for rank in range(1, world.size):
                    file.writelines(world.texts_from(rank))
        else:
            with SpooledTemporaryFile(IN_MEMORY, "w+", encoding="utf-8", newline="") as kept:
                _answer(answers, input, output, as_json, kept.write, share)
                kept.seek(0)
                world.send_to_main(iter(partial(kept.read, PIECE), ""))
        world.max(0)  # every process waits until the file is renamed


def _fingerprint(input: Path) -> str:
    """Return a fingerprint of the content; what is no file that can be read twice is refused."""
    if input.exists() and not (input.is_file() or input.is_dir()):
        raise UserError(f"--input {input} can be read only once, and several processes share it; give a file.")
    with open_input(input) as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _open(run: str, settings: Sequence[str], device: str, weights: str, world: World) -> Predictor:
    """Open the run in the first process before the others: some write an index when they are first opened."""
    for now in (True, False):
        with world.fail_together():
            if world.is_main == now:
                answers = open_run(run, device, settings, weights)
                if isinstance(answers, (Draws, Forecasting)):
                    raise UserError(
                        "a run that draws or forecasts does so in one process; start it without torchrun, or unset WORLD_SIZE."
                    )
    return answers


def _answer(answers: Predictor, input: Path, output: Path, as_json: bool, emit: Emit, share: Share) -> None:
    with report_unknown_words(answers):
        if is_table(input):
            predict_table(input, output, answers, as_json, emit, share)
            return
        for some, number in _lines(input, share):
            answers.predict(some, number, as_json, emit)


def _lines(input: Path, share: Share) -> Iterator[tuple[Sequence[str], int]]:
    """Yield the chunks of a share, each with the number of its first line. The others are read, too: reading costs little."""
    with open_input(input) as file:
        sizes = [len(some) for some in arriving(file, f"--input {input}")]
        mine, number = share.of(len(sizes)), 0
        file.seek(0)
        for n, some in enumerate(islice(arriving(file, f"--input {input}"), mine.stop)):
            if n in mine:
                yield some, number
            number += len(some)
