import { replay } from './driver.js';
import { report } from './report.js';
import { generateTrace } from './reference/recorder.js';
import { ReferenceScheduler } from './reference/scheduler.js';
const [from,n]=process.argv.slice(2).map(Number);
let c=0,d=0,s=0,k=0; const cnt:Record<string,number>={};
for (let i=from;i<from+n;i++) { let t; try { t=generateTrace(i);} catch(e){console.log('seed',i,'GEN',(e as Error).stack?.split('\n').slice(0,4).join(' | '));continue;}
 if(t.connector) k++;
 for (const st of t.steps){ const kv=st.upd?.kv; if(kv){cnt.recv=(cnt.recv??0)+kv.recv.length;cnt.send=(cnt.send??0)+kv.send.length;cnt.inv=(cnt.inv??0)+(kv.invalid?.length??0);} if(t.connector) for(const [,,r] of st.upd?.out??[]) if(r==='error') cnt.err=(cnt.err??0)+1; if(t.connector) cnt.pre=(cnt.pre??0)+(st.sched?.preempted.length??0)}
 const r=replay(JSON.parse(JSON.stringify(t)),(o)=>new ReferenceScheduler(o)); if(r.differences.length) console.log('seed',i,report(r).join('\n').slice(0,1500)); c+=r.comparisons;d+=r.differences.length;s+=r.steps; }
console.log('total',n,'traces',k,'connected',s,c,d,JSON.stringify(cnt));
