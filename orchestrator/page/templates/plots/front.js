// Two objectives of each trial, and the front that no trial is beyond.
// values: xLabel, yLabel, and points and front of [number, x, y], the front from one end to the other
kinds.front = (frame, values) => {
  const { g } = frame, x = extent(values.points.map(p => p[1])), y = extent(values.points.map(p => p[2]));
  const entries = [
    { label: "trial", ink: colour("faint"), mark: "ring" },
    { label: "Pareto front", ink: colour("accent"), mark: "dot" },
  ];
  const { xs, ys } = axes(frame, { x, y, xLabel: values.xLabel, yLabel: values.yLabel, entries, yLog: wide(...y) });
  const place = ([number, cost, value]) => [xs.at(cost), ys.at(value), number, cost, value];
  const places = values.points.map(place), front = values.front.map(place);
  g.lineWidth = 1.2; g.strokeStyle = g.fillStyle = colour("faint");
  for (const [px, py] of places) dot(g, px, py, 3, false);
  g.strokeStyle = g.fillStyle = colour("accent"); g.lineWidth = 2;
  const steps = front.flatMap(([px, py], i) => i ? [[front[i - 1][0], py], [px, py]] : [[px, py]]);
  line(g, steps);
  for (const [px, py] of front) dot(g, px, py, 4);
  return (px, py) => {
    const hit = nearest(() => places, px, py);
    return hit && `trial ${hit[2]}\n${values.yLabel} ${short(hit[4])}\n${values.xLabel} ${short(hit[3])}`;
  };
};
