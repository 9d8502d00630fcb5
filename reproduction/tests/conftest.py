from hypothesis import settings

# How long an example takes depends on the machine, what else it does, and what must be compiled first.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
