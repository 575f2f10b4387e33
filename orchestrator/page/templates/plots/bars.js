// Shares, the greatest first. values: bars of [name, share]
kinds.bars = (frame, values) => {
  const { g, width, height } = frame, bars = values.bars;
  g.textBaseline = "middle";
  const left = Math.min(width * 0.5, Math.max(...bars.map(([name]) => g.measureText(name).width)) + 12);
  const row = height / bars.length, most = Math.max(...bars.map(bar => bar[1])) || 1;
  bars.forEach(([name, share], i) => {
    const middle = (i + 0.5) * row, length = Math.max(1, (width - left - 48) * share / most);
    g.textAlign = "right"; g.fillStyle = colour("text"); g.fillText(name, left - 10, middle, left - 12);
    g.fillStyle = colour("accent"); g.fillRect(left, middle - Math.min(9, row * 0.32), length, Math.min(18, row * 0.64));
    g.textAlign = "left"; g.fillStyle = colour("muted"); g.fillText(`${Math.round(share * 100)} %`, left + length + 6, middle);
  });
  return null;
};
