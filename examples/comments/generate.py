"""Write comments.csv: comments below videos, spam and not, made up from a few phrases.

python examples/comments/generate.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SPAM = (
    "subscribe to my channel", "check out my new video", "visit {link} for more", "win a free phone at {link}",
    "follow me and I follow back", "{link}", "earn money from home, see {link}", "my channel has the full version",
)  # fmt: skip
HAM = (
    "love this song", "best part at {time}", "who is listening in {year}", "the drums are so good", "this voice",
    "my grandmother sang this to me", "I love how the band looks at {time}", "still great in {year}",
    "what a song, what a band", "I play this to my children", "can someone check the chords at {time}",
)  # fmt: skip
BEFORE = ("", "", "", "hey guys, ", "wow, ", "please ", "love it, ")
AFTER = ("", "", "", "!", " :)", " thanks", " it is free", " see http://lyrics.example")


def comments(n: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts with their labels."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        is_spam = bool(rng.random() < 0.45)
        text = str(rng.choice(BEFORE)) + str(rng.choice(SPAM if is_spam else HAM)) + str(rng.choice(AFTER))
        link = f"http://{rng.choice(('win', 'tube', 'deal'))}{rng.integers(100)}.example"
        text = text.format(link=link, time=f"{rng.integers(5)}:{rng.integers(10, 60)}", year=rng.integers(2010, 2026))
        made.append((text, "SPAM" if is_spam else "HAM"))
    return made


def main() -> None:
    with open(HERE / "comments.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["text", "label"])
        table.writerows(comments(400))


if __name__ == "__main__":
    main()
