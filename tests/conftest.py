"""What holds for every test: a busy machine is slow, and no test may fail for that."""

from hypothesis import settings

settings.register_profile("homing", deadline=None)
settings.load_profile("homing")
