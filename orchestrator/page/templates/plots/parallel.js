// One line per trial across its settings, coloured by its value; pruned trials are faint.
// values: yLabel, better, axes of { name, values (per trial, null: has none), choices or null },
//   objective (per trial), states (per trial), numbers (per trial)
kinds.parallel = (frame, values) => {
  const { g, width, height } = frame, top = 72, base = height - 14, left = 46, right = width - 52;
  const step = (right - left) / values.axes.length;
  const goal = extent(values.objective), logGoal = wide(...goal);
  const goalScale = scale(...goal, base, top, logGoal), lower = values.better === "lower";
  const columns = [...values.axes.map((axis, i) => column(axis, left + i * step)), {
    x: right, name: values.yLabel, place: v => goalScale.at(v), labels: goalScale.ticks.map(t => [short(t), goalScale.at(t)]),
  }];

  function column(axis, x) {
    if (axis.choices) {
      const at = i => axis.choices.length < 2 ? (top + base) / 2 : base - 8 - i / (axis.choices.length - 1) * (base - top - 16);
      return { x, name: axis.name, place: v => v === null ? null : at(v), labels: axis.choices.map((c, i) => [c, at(i)]) };
    }
    const range = extent(axis.values), s = scale(...range, base, top, wide(...range));
    return { x, name: axis.name, place: v => v === null ? null : s.at(v), labels: s.ticks.map(t => [short(t), s.at(t)]) };
  }
  // Good values are drawn last, in a colour of their own.
  const ranked = values.objective.map((v, i) => i).filter(i => values.objective[i] !== null)
    .sort((a, b) => (lower ? 1 : -1) * (values.objective[b] - values.objective[a]));
  const full = ranked.filter(i => values.states[i] === "complete"), few = Math.max(1, Math.ceil(full.length / 10));
  const best = new Set(full.slice(-few)), last = full.at(-1);
  const alpha = Math.max(0.06, Math.min(0.5, 40 / ranked.length));
  const lines = new Map();
  for (const i of [...ranked.filter(i => values.states[i] !== "complete"), ...full]) {
    const points = columns.map((c, k) => [c.x, c.place(k < values.axes.length ? values.axes[k].values[i] : values.objective[i])]).filter(p => p[1] !== null);
    lines.set(i, points);
    const complete = values.states[i] === "complete";
    g.strokeStyle = colour(i === last ? "s1" : best.has(i) ? "accent" : "faint");
    g.lineWidth = i === last ? 2.5 : best.has(i) ? 1.5 : 1;
    g.globalAlpha = i === last ? 1 : best.has(i) ? 0.8 : complete ? alpha : alpha * 0.6;
    line(g, points);
  }
  g.globalAlpha = 1;
  const back = colour("back");
  for (const c of columns) {
    g.strokeStyle = colour("muted"); g.lineWidth = 1; line(g, [[c.x, top], [c.x, base]]);
    g.textAlign = "left"; g.textBaseline = "middle";
    for (const [label, y] of c.labels) {  // a halo keeps them readable over the lines
      g.strokeStyle = back; g.lineWidth = 3; g.strokeText(label, c.x + 5, y, step - 10);
      g.fillStyle = colour("text"); g.fillText(label, c.x + 5, y, step - 10);
    }
    const [group, ...rest] = c.name.split("."), own = rest.join(".") || group;
    g.textAlign = c === columns[0] ? "left" : "center"; g.textBaseline = "bottom";
    const x = c === columns[0] ? Math.max(0, c.x - step / 2) : c.x;
    g.fillStyle = colour("muted"); if (rest.length) g.fillText(group, x, top - 26, step - 6);
    g.fillStyle = colour("text"); g.font = `600 ${FONT}`; g.fillText(own, x, top - 11, step - 6); g.font = FONT;
  }
  legend({ g, width }, [{ label: "best", ink: colour("s1") }, { label: "best tenth", ink: colour("accent") }, { label: "others", ink: colour("faint") }]);
  const points = () => [...lines].flatMap(([i, line]) => line.map(p => [...p, i]));
  return (px, py) => {
    const hit = nearest(points, px, py, 14);
    if (!hit) return null;
    const i = hit[2];
    const settings = values.axes.map(a => a.values[i] === null ? null : `${a.name} ${a.choices ? a.choices[a.values[i]] : short(a.values[i])}`);
    return [`trial ${values.numbers[i]}, ${values.states[i]}: ${short(values.objective[i])}`, ...settings.filter(s => s)].join("\n");
  };
};
