// The terminal's modules look for `window` when they are loaded; a worker has none. Import this before them.
(globalThis as { window?: unknown }).window ??= globalThis;
