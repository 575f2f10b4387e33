// The value of each trial in the order of the trials, and the best so far.
// values: xLabel, yLabel, better, and points of [number, value, state]
kinds.points = (frame, values) => {
  const { g } = frame, measured = values.points.filter(p => p[1] !== null);
  const y = extent(measured.map(p => p[1])), x = [0, Math.max(1, values.points.length - 1)];
  const inks = { complete: colour("accent"), pruned: colour("faint"), failed: colour("bad"), stopped: colour("warn"), running: colour("warn") };
  const states = [...new Set(values.points.map(p => p[2]))];
  const entries = [
    ...states.map(state => ({ label: state, ink: inks[state] || inks.pruned, mark: state === "complete" ? "dot" : "ring" })),
    { label: "best so far", ink: colour("s1") },
  ];
  const { xs, ys, base } = axes(frame, { x, y, xLabel: values.xLabel, yLabel: values.yLabel, entries, yLog: wide(...y) });
  const size = measured.length > 2000 ? 1.5 : measured.length > 300 ? 2.2 : 3.2;
  const places = [];
  g.lineWidth = 1.2;
  for (const [number, value, state] of values.points) {
    g.fillStyle = g.strokeStyle = inks[state] || inks.pruned;
    g.globalAlpha = state === "complete" ? 0.75 : 0.6;
    const place = [xs.at(number), value === null ? base : ys.at(value)];
    if (value === null) { if (state === "failed") line(g, [[place[0], base - 5], [place[0], base]]); }
    else dot(g, ...place, size, state === "complete");
    g.globalAlpha = 1;
    places.push([...place, number, value, state]);
  }
  const steps = [], lower = values.better === "lower";
  let best = null;
  for (const [number, value, state] of values.points) {
    if (state !== "complete" || value === null || (best !== null && (lower ? value >= best : value <= best))) continue;
    if (best !== null) steps.push([xs.at(number), ys.at(best)]);
    best = value; steps.push([xs.at(number), ys.at(best)]);
  }
  if (best !== null) steps.push([xs.at(x[1]), ys.at(best)]);
  g.strokeStyle = colour("s1"); g.lineWidth = 2; line(g, steps);
  const list = () => places;
  return (px, py) => {
    const hit = nearest(list, px, py);
    return hit && `trial ${hit[2]}, ${hit[4]}\n${hit[3] === null ? "no validation" : short(hit[3])}`;
  };
};
