"""What a controller loads that probes no driver and has no configuration file: gRPC would be a tenth of its memory."""

import subprocess
import sys


def test_a_controller_loads_only_what_it_uses() -> None:
    program = (
        "import sys\nimport prebinder.controller.process\nfrom prebinder.controller.sweeps import sweep_jobs\n"
        "from csi.drivers import Drivers\nfrom kube.clock import SystemClock\n"
        "from prebinder.config.settings import Settings\n"
        "drivers = Drivers((), SystemClock(), None)\n"
        "assert sweep_jobs(Settings(), drivers, None, lambda: True) == {}\n"
        "assert 'msgspec' in sys.modules\n"
        "unneeded = {'grpc', 'rich', 'yaml', 'pydantic', 'difflib', 'binder.controllers.hold_controller'}\n"
        "assert not unneeded & set(sys.modules), unneeded & set(sys.modules)\n"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
