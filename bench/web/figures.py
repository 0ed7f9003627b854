"""What the section measures, in its order, and the budget of each figure: nothing else names a figure."""

from __future__ import annotations

from dataclasses import dataclass

from bench.results import Metric, Results

SECTION = "The web application in Chromium"
HERE = "on this machine"
SLOW = "processor 4 times slower, 10 Mbit/s, 40 ms"
TIME = Metric("time", "ms", 1)
SIZE = Metric("transferred", "kB")
COUNT = Metric("count", "in all")
MEGABYTES = Metric("memory", "MB")


@dataclass(frozen=True, slots=True)
class Figure:
    """`budget` is the most that it may be, on this machine; `slow_budget` on a slow one. None: there is no budget."""

    name: str
    metric: Metric
    budget: float | None = None
    slow_budget: float | None = None

    @property
    def unit(self) -> str:
        return "" if self.metric == COUNT else f" {self.metric.unit}"

    @property
    def digits(self) -> int:
        return self.metric.digits


def scripts_of(screen: str, budget: float) -> Figure:
    return Figure(f"scripts of {screen}", SIZE, budget)


LOGIN_SCRIPTS = scripts_of("the login page", 90)
HOME_SCRIPTS = scripts_of("home, with the shell", 160)
HOME_STYLES = Figure("styles of home", SIZE, 25)
HOME_FONTS = Figure("fonts of home", SIZE, 90)
ON_TOP = {
    "/sql/shop-demo": scripts_of("the SQL editor, on top of the shell", 150),
    "/terminal/shell": scripts_of("a terminal, on top", 100),
    "/reports": scripts_of("reports, on top", 35),
    "/sessions": scripts_of("sessions, on top", 20),
    "/connections": scripts_of("connections, on top", 20),
    "/reviews": scripts_of("reviews, on top", 20),
    "/people": scripts_of("people, on top", 20),
    "/audit": scripts_of("audit, on top", 20),
}
HOME_REQUESTS = Figure("requests until home can be used", COUNT, 8)
HOME_FILES = Figure("of these, files", COUNT)
FIRST_PAINT = Figure("home, first visit: first paint", TIME, 300, 1_200)
FIRST_USABLE = Figure("home, first visit: can be used", TIME, 500, 1_600)
AGAIN_PAINT = Figure("home, second visit: first paint", TIME, 300, 600)
AGAIN_USABLE = Figure("home, second visit: can be used", TIME, 500, 900)
INTERACTION = Figure("a click or key to the next frame, p95", TIME, 100)
ROUTE = Figure("another screen, its data in the cache", TIME, 50)
SESSIONS_OPEN = Figure("10,000 sessions: the list opens", TIME, 200)
SESSIONS_FILTER = Figure("10,000 sessions: a filter", TIME, 200)
SESSIONS_SEARCH = Figure("10,000 sessions: a search", TIME, 200)
SESSIONS_MORE = Figure("10,000 sessions: the next page, after 1,000 rows", TIME, 200)
EDITOR_KEY = Figure("a key in the editor, 2,000 tables of 20 columns, p95", TIME, 16)
COMPLETION = Figure("completion in the editor, 2,000 tables of 20 columns", TIME, 100)
FIRST_ROW = Figure("the first row of a result, after the gateway has it", TIME, 50)
RUN = Figure("from Ctrl+Enter to the first row", TIME)
GRID_LOAD = Figure("a result of 100,000 rows of 50 columns: from Ctrl+Enter to the grid", TIME)
GRID_ROWS = Figure("a result of 100,000 rows of 50 columns: rows in the page", COUNT)
GRID_FRAME = Figure("a result of 100,000 rows of 50 columns: a frame while scrolling, p95", TIME, 25)
GRID_JUMP = Figure("a result of 100,000 rows of 50 columns: a jump anywhere", TIME, 100)
GRID_CELLS = Figure("a result of 100,000 rows of 50 columns: cells in the page", COUNT, 400)
GRID_MEMORY = Figure("a result of 100,000 rows of 50 columns: memory of scripts", MEGABYTES, 300)
REPLAY_OPEN = Figure("an hour of terminal, 16 MiB: first picture", TIME, 300)
REPLAY_INDEX = Figure("an hour of terminal, 16 MiB: loaded and indexed", TIME, 3_000)
REPLAY_SEEK = Figure("an hour of terminal, 16 MiB: seek anywhere, p95", TIME, 100)
WATCH = Figure("from Enter in a terminal to its output where it is watched", TIME, 300)
KEYSTROKE = Figure("a key in a terminal to its echo, p95", TIME, 10)
DIRECT_KEYSTROKE = Figure("a key in the same shell without browser and gateway, p95", TIME)

FIGURES = (
    LOGIN_SCRIPTS,
    HOME_SCRIPTS,
    HOME_STYLES,
    HOME_FONTS,
    *ON_TOP.values(),
    HOME_REQUESTS,
    HOME_FILES,
    FIRST_PAINT,
    FIRST_USABLE,
    AGAIN_PAINT,
    AGAIN_USABLE,
    INTERACTION,
    ROUTE,
    SESSIONS_OPEN,
    SESSIONS_FILTER,
    SESSIONS_SEARCH,
    SESSIONS_MORE,
    EDITOR_KEY,
    COMPLETION,
    FIRST_ROW,
    RUN,
    GRID_LOAD,
    GRID_ROWS,
    GRID_FRAME,
    GRID_JUMP,
    GRID_CELLS,
    GRID_MEMORY,
    REPLAY_OPEN,
    REPLAY_INDEX,
    REPLAY_SEEK,
    WATCH,
    KEYSTROKE,
    DIRECT_KEYSTROKE,
)


def add(results: Results, figure: Figure, value: float, case: str = HERE) -> None:
    results.add(SECTION, case, figure.name, figure.metric, value)
