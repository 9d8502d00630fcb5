"""The paper's figures, and the figure of the results page."""
