"""Fits of commands that take a moment."""

FAST = {"n_members": 3, "hidden_layer_sizes": (8,), "epochs": 20}


def make_fits_small(monkeypatch):
    """Let the regressors that commands make have few small networks, briefly trained."""
    from bdkn.cli import fit as training

    former = training.Training.regressor

    def small(self):
        model = former(self)
        return model.set_params(**{name: value for name, value in FAST.items() if name in model.get_params()})

    monkeypatch.setattr(training.Training, "regressor", small)
