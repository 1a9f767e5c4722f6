"""Settings of the property tests."""

from hypothesis import HealthCheck, settings

# A property holds or not; how long an example takes on a busy machine says nothing.
settings.register_profile(
    "foretell", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("foretell")
