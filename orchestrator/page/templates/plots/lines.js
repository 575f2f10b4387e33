// Curves: of every trial of a sweep, or of the groups of a comparison with their bands.
// values: xLabel, yLabel, legend (whether series are named), grids (x of the points), and series of
//   { name, grid, y, look: best | complete | pruned | failed | 0, 1, 2 ..., low, high }
kinds.lines = (frame, values) => {
  const { g } = frame, { grids, series } = values;
  const shown = series.filter(s => s.y.length);
  const y = extent(shown.flatMap(s => [...s.y, ...(s.low || []), ...(s.high || [])]));
  const x = extent(shown.flatMap(s => [grids[s.grid][0], grids[s.grid][s.y.length - 1]]));
  const looks = {
    failed: { ink: colour("bad"), width: 1, alpha: 0.35 },
    pruned: { ink: colour("faint"), width: 1, alpha: Math.max(0.12, Math.min(0.6, 60 / shown.length)) },
    complete: { ink: colour("accent"), width: 1, alpha: Math.max(0.15, Math.min(0.55, 60 / shown.length)) },
    best: { ink: colour("s1"), width: 2.5, alpha: 1 },
  };
  const order = Object.keys(looks);
  const entries = values.legend
    ? shown.map(s => ({ label: s.name, ink: colour(`s${s.look % 8}`) }))
    : order.filter(name => shown.some(s => s.look === name)).map(name => ({ label: name, ink: looks[name].ink }));
  const { xs, ys } = axes(frame, { x, y, xLabel: values.xLabel, yLabel: values.yLabel, entries, yLog: wide(...y) });
  const places = shown.map(s => s.y.map((v, i) => v === null ? null : [xs.at(grids[s.grid][i]), ys.at(v)]).filter(p => p));
  const drawing = shown.map((s, i) => i).sort((a, b) => order.indexOf(shown[a].look) - order.indexOf(shown[b].look));
  for (const i of drawing) {
    const s = shown[i], look = looks[s.look] || { ink: colour(`s${s.look % 8}`), width: 2, alpha: 1 };
    if (s.low) {
      g.fillStyle = look.ink; g.globalAlpha = 0.15; g.beginPath();
      s.low.forEach((v, k) => g.lineTo(xs.at(grids[s.grid][k]), ys.at(v)));
      [...s.high.keys()].reverse().forEach(k => g.lineTo(xs.at(grids[s.grid][k]), ys.at(s.high[k])));
      g.fill();
    }
    g.strokeStyle = g.fillStyle = look.ink; g.lineWidth = look.width; g.globalAlpha = look.alpha;
    if (places[i].length === 1) dot(g, ...places[i][0], 2.5); else line(g, places[i]);
    g.globalAlpha = 1;
  }
  const points = () => places.flatMap((line, i) => line.map((p, k) => [...p, i, k]));
  return (px, py) => {
    const hit = nearest(points, px, py);
    if (!hit) return null;
    const s = shown[hit[2]];
    return `${s.name}\n${short(s.y[hit[3]])} at ${short(grids[s.grid][hit[3]])} ${values.xLabel}`;
  };
};
