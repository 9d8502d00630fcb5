"""Parts of a fitted model beside its members: extrapolation, density, discrete targets."""
