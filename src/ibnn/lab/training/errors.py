"""What can go wrong with a run, one class per kind, each message one clear line."""


class RunError(Exception):
    """Something about a run that its user can act on."""


class ConfigError(RunError, ValueError):
    """A run was described with a key or a value that does not exist."""


class DivergedError(RunError):
    """The loss stopped being a finite number."""


class CheckpointError(RunError):
    """A file of the run folder is damaged or belongs to another run."""


class RunLockedError(RunError):
    """Another living process is training this run."""
