"""What touches the machine: files, folders, downloads, processes, threads, kernels. Knows neither images nor codes."""
