"""`pvc-prebinder scheduler`: from flags to settings, then to the process."""

import json
import sys
from dataclasses import replace
from typing import Any, Final

import cloup

from prebinder.command_line.command import Command
from prebinder.command_line.flags import CLUSTER_FLAGS, FEATURE_GATES, FLAGS, Flag, Flags, override, settings_flags
from prebinder.config.scheduler_settings import LEASE, SchedulerSettings, SchedulingSettings
from prebinder.errors import CommandError, ExitCode, UsageError

EXAMPLES: Final = """
Examples:
  pvc-prebinder scheduler --name zone-scheduler
      schedule pods with schedulerName: zone-scheduler by the default profile
  pvc-prebinder scheduler --config scheduler.yaml
      schedule by the profiles of a SchedulerConfiguration; the file is reloaded when it changes
  pvc-prebinder scheduler --name zone-scheduler --control-bind-address 127.0.0.1:10270
      also serve the control port for tools and `pvc-prebinder dev profile`

Exit codes:
  0 stopped by a signal   1 error   2 usage
"""

SCHEDULER_FLAGS: Final[Flags] = {
    "Scheduling": (
        Flag("--name", "scheduling.scheduler_names", "schedule pods with this spec.schedulerName; repeatable", "NAME"),
        Flag("--config", "scheduling.config", "a SchedulerConfiguration, which names the schedulers itself", "FILE"),
        Flag(
            "--annotation-prefix",
            "scheduling.annotation_prefix",
            "the controller's; default scheduler.cloud.example/",
            "PREFIX",
        ),
        Flag(
            "--bind-timeout",
            "scheduling.bind_timeout",
            "how long a pod's claims may take to be bound before it is retried, default 10m",
            "DURATION",
        ),
    ),
    "Control port": (
        Flag(
            "--control-bind-address",
            "control.bind_address",
            "loopback address for tools that control it, such as 127.0.0.1:10270; default 0, disabled",
            "ADDRESS",
        ),
        Flag(
            "--control-token-file",
            "control.token_file",
            "token that tools must present, created if missing; default a file in $XDG_RUNTIME_DIR or /tmp",
            "FILE",
        ),
    ),
    "Features": (FEATURE_GATES,),
    "Cluster": CLUSTER_FLAGS,
    "Leader election": tuple(
        replace(flag, help=f"default {LEASE}-NAME") if flag.field == "name" else flag
        for flag in FLAGS["Leader election"]
    ),
    "Metrics, probes and logs": FLAGS["Metrics, probes and logs"],
}


@cloup.command("scheduler", cls=Command, examples=EXAMPLES)
@cloup.option("--print-schema", is_flag=True, help="print the JSON schema of the configuration file and exit")
@settings_flags(SCHEDULER_FLAGS, SchedulerSettings())
def command(print_schema: bool, **given: Any) -> int:
    """Schedules the pods that name it in spec.schedulerName, by reservations and volume health (alpha).

    Chooses nodes, binds the pods' volumes and assigns the pods. Where kube-scheduler can be configured, use the
    extender instead.
    """
    if print_schema:
        from scheduler.framework.config import FILE  # noqa: PLC0415 - only here

        sys.stdout.write(json.dumps(FILE.schema(), indent=2) + "\n")
        return ExitCode.FINE
    settings = override(SchedulerSettings(), given, SCHEDULER_FLAGS)
    reject_unclear(settings.scheduling)
    if not settings.feature_gates.scheduler:
        raise CommandError("the feature gate Scheduler is off; remove Scheduler=false from --feature-gates to run it")
    # Imported lazily: the help needs no HTTP.
    from prebinder.scheduler.process import run_scheduler  # noqa: PLC0415

    return run_scheduler(settings)


def reject_unclear(settings: SchedulingSettings) -> None:
    """Raise UsageError unless exactly one of --name and --config is given."""
    if settings.scheduler_names and settings.config:
        raise UsageError("--name and --config are mutually exclusive: the configuration names the schedulers")
    if not settings.scheduler_names and not settings.config:
        raise UsageError("one of --name or --config is required; --name takes the pods' spec.schedulerName")
