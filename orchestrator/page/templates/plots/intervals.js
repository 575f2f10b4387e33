// Runs as dots, their mean and its interval: one row per candidate; or shares around an even chance.
// values: xLabel, rows of { name, mean, low, high, dots }, middle (a line to compare with)
kinds.intervals = (frame, values) => {
  const { g, width, height } = frame, { rows } = values;
  const numbers = rows.flatMap(r => [r.mean, r.low, r.high, ...r.dots]).filter(v => v !== null);
  let [low, high] = values.range || extent(numbers);
  const log = !values.range && wide(low, high), pad = (high - low) * 0.04 || Math.abs(high) * 0.05 || 1;
  if (log) { low *= 0.9; high *= 1.1; } else if (!values.range) { low -= pad; high += pad; }
  const longest = Math.max(...rows.map(r => g.measureText(r.name).width)) + 16;
  const narrow = longest > width * 0.42, names = narrow ? 12 : longest;  // then names are above the marks
  const base = height - 40, xs = scale(low, high, names, width - 12, log), step = (base - 6) / rows.length;
  g.textBaseline = "top"; g.textAlign = "center"; g.lineWidth = 1;
  for (const t of xs.ticks) {
    g.strokeStyle = colour("line"); line(g, [[xs.at(t), 0], [xs.at(t), base]]);
    g.fillStyle = colour("muted"); g.fillText(short(t), xs.at(t), base + 7);
  }
  g.textAlign = "right"; g.fillText(values.xLabel, width - 12, base + 23, width - 16);
  if (values.middle !== undefined) { g.strokeStyle = colour("muted"); g.setLineDash([4, 3]); line(g, [[xs.at(values.middle), 0], [xs.at(values.middle), base]]); g.setLineDash([]); }
  rows.forEach((r, i) => {
    const y = 3 + (i + (narrow ? 0.72 : 0.5)) * step;
    g.textBaseline = "middle"; g.textAlign = narrow ? "left" : "right"; g.fillStyle = colour("text");
    if (narrow) g.fillText(r.name, 0, y - step * 0.45, width); else g.fillText(r.name, names - 12, y);
    g.fillStyle = colour("faint"); g.globalAlpha = 0.7;
    r.dots.forEach(v => dot(g, xs.at(v), y, 3.5));
    g.globalAlpha = 1; g.strokeStyle = g.fillStyle = colour(i === 0 && values.best ? "s1" : "accent"); g.lineWidth = 2.5;
    if (r.low !== null) line(g, [[xs.at(Math.max(low, r.low)), y], [xs.at(Math.min(high, r.high)), y]]);
    g.fillRect(xs.at(r.mean) - 5, y - 5, 10, 10);
  });
  return (px, py) => {
    const r = rows[Math.floor((py - 3) / step)];
    if (!r || py > base) return null;
    return r.low === null ? `${r.name}\n${short(r.mean)}` : `${r.name}\n${short(r.mean)}, from ${short(r.low)} to ${short(r.high)}`;
  };
};
