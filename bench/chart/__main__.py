"""`python -m bench.chart [RESULTS]`: draw the chart of docs/performance.md, and write its table.

RESULTS is a file of bench/results with part n, whose numbers are kept in docs/pictures/pairs.json. Without it the
numbers that are there are drawn again.
"""

import sys
from pathlib import Path

from bench.chart.pairs import publish, redraw

if __name__ == "__main__":
    print(publish(Path(sys.argv[1])) if len(sys.argv) > 1 else redraw())
