"""One tiny role program a verb, with its plan and the answer it must give. Run in the simulator here, on the GPU by tests/gpu."""
