// After the build: a compressed form beside each file that has one worth sending, and the licences of all packages.

import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = process.argv[2];
const COMPRESSIBLE = /\.(js|css|svg|txt)$/;
const SMALLEST = 1_024; // bytes; below, a packet is a packet

writeFileSync(join(dist, "licences.txt"), licences());
for (const name of readdirSync(dist, { recursive: true })) {
  const path = join(dist, name);
  if (!COMPRESSIBLE.test(name) || statSync(path).size < SMALLEST) continue;
  const content = readFileSync(path);
  const options = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length } };
  writeFileSync(`${path}.br`, brotliCompressSync(content, options));
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
}

/** The licence of each package that is part of the application, from the lock file. */
function licences() {
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
  const { dependencies } = JSON.parse(readFileSync("package.json", "utf8"));
  const BUILD_ONLY = new Set(["vite", "@vitejs/plugin-react"]);
  const needed = new Set();
  const visit = (name) => {
    if (needed.has(name) || !packages[`node_modules/${name}`]) return;
    needed.add(name);
    Object.keys(packages[`node_modules/${name}`].dependencies ?? {}).forEach(visit);
  };
  Object.keys(dependencies).filter((name) => !BUILD_ONLY.has(name)).forEach(visit);
  return [...needed].sort().map(licence).join("\n");
}

function licence(name) {
  const folder = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e(\.(md|txt))?$/i.test(entry));
  const words = file ? readFileSync(join(folder, file), "utf8").trim() : `Licence: ${license}`;
  return `${name} ${version} (${license})\n\n${words}\n\n${"-".repeat(80)}\n`;
}
