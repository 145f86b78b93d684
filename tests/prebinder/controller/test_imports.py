"""What a controller loads that probes no driver: gRPC would be a tenth of its memory."""

import subprocess
import sys


def test_a_controller_without_endpoints_does_not_load_grpc() -> None:
    program = (
        "import sys\nimport prebinder.controller.process\nfrom prebinder.controller.sweeps import sweep_jobs\n"
        "from csi.drivers import Drivers\nfrom kube.clock import SystemClock\n"
        "from prebinder.config.settings import Settings\n"
        "drivers = Drivers((), SystemClock(), None)\n"
        "assert sweep_jobs(Settings(), drivers, None, lambda: True) == {}\n"
        "assert 'msgspec' in sys.modules and 'grpc' not in sys.modules\n"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
