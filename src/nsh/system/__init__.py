"""Files, folders, downloads, processes, threads and CPU kernels. Knows neither images nor codes."""
