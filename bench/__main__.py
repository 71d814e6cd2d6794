"""`scripts/bench STUDY`: measure a study on the running stack, judge it, and write its report into results/.

    scripts/bench fiveway [--quick]     the 5-way comparison
    scripts/bench aa                    one route against itself under two names: is the instrument honest?
    scripts/bench truth                 the same cells by independent load generators: how far off is Locust?
    scripts/bench report RESULT         judge a result again and rewrite its report
    scripts/bench readme RESULT         print the README (from stdin) with the table of a result

Exit status: 0 when everything was measured, 1 when something was not, 2 for options that cannot be run, 130 for Ctrl-C.
"""

import sys

from bench import commands
from bench.measure.launcher import LoadError
from bench.report.results import ResultError
from locustfiles.clients import CallError
from locustfiles.serving import NothingServed
from locustfiles.settings import BadSetting


def main() -> int:
    options = commands.parse()
    try:
        return int(options.run(options))
    except BadSetting as bad:
        print(f"fiveway: {bad}", file=sys.stderr)
        return 2
    except (LoadError, ResultError, CallError, NothingServed) as error:
        print(f"fiveway: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
